"""What a collector gets, byte for byte: the protocol's own messages against the samples of the metrics page."""

from __future__ import annotations

import logging

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2

from agent.catalogue import CATALOGUE, Unit
from agent.config import Otlp
from agent.errors import ConfigError
from agent.outputs.otlp import otlp_export
from agent.outputs.otlp_data import UNITS, Batch, metrics_data, resource_of
from agent.outputs.otlp_exporters import plan, wanted
from agent.outputs.sample import Buckets, Sample
from agent.outputs.samples import samples
from tests.outputs import fleet
from tests.outputs.otlp.collector import collector
from tests.outputs.otlp.test_collector_down import HandClock, until

AT, STARTED = 1_800_000_300.25, 1_800_000_000.5


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch(list(samples(fleet.snapshot(fleet.live()))), AT, STARTED)


def sent(batch: Batch, gen_ai: bool = False, deployment: str | None = None) -> ExportMetricsServiceRequest:
    data = metrics_data(batch, resource_of(Otlp(), deployment, {}), deployment, gen_ai)
    message = ExportMetricsServiceRequest()
    message.ParseFromString(encode_metrics(data).SerializeToString())
    return message


def metrics_of(message: ExportMetricsServiceRequest, scope: str = "pdwatch") -> dict[str, metrics_pb2.Metric]:
    (resource,) = message.resource_metrics
    return {
        metric.name: metric for part in resource.scope_metrics if part.scope.name == scope for metric in part.metrics
    }


def attributes(point: metrics_pb2.NumberDataPoint | metrics_pb2.HistogramDataPoint) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in point.attributes}


def labels(sample: Sample) -> dict[str, str]:
    return {name: text for name, text in zip(sample.metric.labels, sample.labels, strict=True) if text}


def test_every_sample_of_the_page_is_a_data_point_with_the_same_name_labels_and_value(batch: Batch):
    found = metrics_of(sent(batch))
    assert set(found) == {sample.metric.name for sample in batch.samples}
    for sample in batch.samples:
        metric = found[sample.metric.name]
        kind = metric.WhichOneof("data") or ""
        (point,) = [p for p in getattr(metric, kind).data_points if attributes(p) == labels(sample)]
        assert point.time_unix_nano == round(AT * 1e9)
        if isinstance(sample.value, Buckets):
            assert list(point.bucket_counts) == [round(count) for count in sample.value.counts]
            assert tuple(point.explicit_bounds) == sample.value.edges
            assert point.count == sum(point.bucket_counts)
            assert point.HasField("sum") == (sample.value.total is not None)
            assert point.sum == (sample.value.total or 0.0)
            assert not point.HasField("min")
            assert not point.HasField("max")
        else:
            assert point.as_double == sample.value


def test_kinds_units_and_the_start_of_what_only_grows(batch: Batch):
    kinds = {"gauge": "gauge", "info": "gauge", "counter": "sum", "histogram": "histogram"}
    seen = set()
    for name, metric in metrics_of(sent(batch)).items():
        catalogued = CATALOGUE[name]
        kind = metric.WhichOneof("data")
        assert kind == kinds[catalogued.kind]
        assert metric.unit == UNITS[catalogued.unit]
        assert metric.description == catalogued.help
        data = getattr(metric, kind)
        if kind != "gauge":
            assert data.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
            assert {point.start_time_unix_nano for point in data.data_points} == {round(STARTED * 1e9)}
        if kind == "sum":
            assert data.is_monotonic
        seen.add(kind)
    assert seen == {"gauge", "sum", "histogram"}


def test_every_unit_of_the_catalogue_has_its_code():
    units: set[Unit] = {metric.unit for metric in CATALOGUE.values()}
    assert units <= set(UNITS)


def test_a_sum_that_cannot_be_trusted_is_left_out_as_on_the_page():
    metric = CATALOGUE["pdwatch_ttft_seconds"]
    batch = Batch([Sample(metric, ("decode",), Buckets((0.5,), (2.0, 1.0), None))], AT, STARTED)
    (point,) = metrics_of(sent(batch))["pdwatch_ttft_seconds"].histogram.data_points
    assert (point.count, point.HasField("sum")) == (3, False)


def test_the_deployment_is_an_attribute_of_the_resource_and_of_every_point(batch: Batch):
    message = sent(batch, deployment="glm-prod")
    resource = {pair.key: pair.value.string_value for pair in message.resource_metrics[0].resource.attributes}
    assert resource["pdwatch.deployment"] == "glm-prod"
    assert resource["service.name"] == "pdwatch"
    for metric in metrics_of(message).values():
        for point in getattr(metric, metric.WhichOneof("data") or "").data_points:
            assert attributes(point)["deployment"] == "glm-prod"


def test_what_the_environment_says_of_the_resource_goes_before_pdwatchs_own(monkeypatch: pytest.MonkeyPatch):
    environ = {"OTEL_SERVICE_NAME": "watchdog", "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=a,team=x"}
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    found = resource_of(Otlp(resource=(("region", "eu"),)), None, environ).attributes
    assert found["service.name"] == "watchdog"
    assert found["service.instance.id"] == "a"
    assert (found["team"], found["region"]) == ("x", "eu")


def test_the_genai_names_are_sent_only_when_asked_for(batch: Batch):
    assert metrics_of(sent(batch), "pdwatch.gen_ai") == {}
    found = metrics_of(sent(batch, gen_ai=True), "pdwatch.gen_ai")
    assert set(found) == {
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
        "gen_ai.server.request.duration",
    }
    points = found["gen_ai.server.time_to_first_token"].histogram.data_points
    assert {(attributes(p)["pdwatch.pool"], attributes(p)["pdwatch.role"]) for p in points} == {
        ("prefill", "prefill"),
        ("decode", "decode"),
    }
    assert {attributes(p)["gen_ai.provider.name"] for p in points} == {"vllm"}
    assert found["gen_ai.server.time_to_first_token"].unit == "s"


def test_the_exporter_sends_it_all_over_http_with_the_standard_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip")
    live = fleet.live()
    with collector() as (url, kept):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        export = otlp_export(live.config, live, HandClock(), {})
        export.tick()
        until(lambda: bool(kept.bodies))
        export.close()
    path, headers, body = kept.bodies[0]
    assert path == "/v1/metrics"
    assert headers["authorization"] == "Bearer abc"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip"
    message = ExportMetricsServiceRequest()
    message.ParseFromString(body)
    assert "pdwatch_pool_ttft_mean_seconds" in metrics_of(message)


def test_an_address_without_a_path_is_the_collectors_base():
    live = fleet.live()
    with collector() as (url, kept):
        how = plan(Otlp(endpoint=url), {})
        exporter = how.make()
        exporter.export(metrics_data(Batch(live.samples(), AT, STARTED), resource_of(Otlp(), None, {})))
        exporter.shutdown()
    assert [path for path, _, _ in kept.bodies] == ["/v1/metrics"]


def test_interval_timeout_and_protocol_come_from_the_variables_unless_configured():
    environ = {"OTEL_METRIC_EXPORT_INTERVAL": "5000", "OTEL_EXPORTER_OTLP_TIMEOUT": "3"}
    assert plan(Otlp(), environ)[1:3] == (5.0, 3.0)
    assert plan(Otlp(interval_seconds=60.0, timeout_seconds=1.0), environ)[1:3] == (60.0, 1.0)
    assert plan(Otlp(), {})[1:3] == (15.0, 10.0)
    with pytest.raises(ConfigError, match="http/json"):
        plan(Otlp(), {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL"):
        plan(Otlp(), {"OTEL_METRIC_EXPORT_INTERVAL": "often"})


def test_grpc_is_the_exporter_that_the_protocol_asks_for():
    grpc = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", reason="the extra grpc is not installed"
    )
    exporter = plan(Otlp(endpoint="http://127.0.0.1:4317", protocol="grpc"), {}).make()
    assert isinstance(exporter, grpc.OTLPMetricExporter)
    exporter.shutdown()


def test_metrics_are_sent_with_the_section_or_the_variable_and_never_against_a_veto():
    assert not wanted(None, {})
    assert wanted(Otlp(), {})
    assert wanted(None, {"OTEL_METRICS_EXPORTER": "otlp"})
    assert not wanted(Otlp(), {"OTEL_METRICS_EXPORTER": "none"})
    assert not wanted(Otlp(), {"OTEL_SDK_DISABLED": "true"})


def test_the_exporters_own_lines_stay_out_of_the_log(caplog: pytest.LogCaptureFixture):
    how = plan(Otlp(), {})
    logging.getLogger("opentelemetry.exporter.otlp.proto.http").error("refused\nby %s", "host")
    assert how.last_words.text == "refused by host"
    assert caplog.records == []
