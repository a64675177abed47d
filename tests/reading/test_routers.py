"""Routers' pages: each kind told from the others, read in our own names, and never taken for an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import NotRouter, NotVllm
from agent.model import TARGET_WIDE, Reading
from agent.reading.page import PageReader
from agent.reading.router_names import ROUTERS, KnownKind
from agent.reading.routers import RouterReader, changed_prefix, kind_of
from agent.windows.target import TargetWindow
from tests.pages import counter, gauge, histogram, page

EPP = page(
    counter("llm_d_epp_request_total", 7, None, model_name="m", fairness_id="a", priority="0"),
    counter("llm_d_epp_request_error_total", 1, None, model_name="m", error_code="500"),
    histogram("llm_d_epp_request_ttft_seconds", {0.5: 2, 1.0: 4}, 2.5, None, model_name="m", streaming="true"),
    histogram(
        "llm_d_epp_request_ttft_seconds", {0.5: 0, 1.0: 0, 60.0: 3}, 90.0, None, model_name="m", streaming="false"
    ),
    counter("inference_objective_request_total", 7, None, model_name="m", priority="0"),
    gauge("llm_d_epp_request_running", 2, None, model_name="m"),
    gauge("llm_d_epp_flow_control_queue_size", 3, None, priority="0"),
    gauge("llm_d_epp_flow_control_queue_size", 4, None, priority="1"),
)
PRODUCTION_STACK = page(
    gauge("vllm:num_requests_running", 3, None, server="http://10.0.0.1:8000"),
    gauge("vllm:current_qps", 1.5, None, server="http://10.0.0.1:8000"),
    counter("vllm:num_incoming_requests_total", 9, None, model="m"),
    histogram("vllm:request_latency_seconds", {0.5: 4, 10.0: 8}, 20.0, None, server="s", model="m", status="200"),
)
VLLM_ROUTER = page(
    counter("vllm_router_pd_requests_total", 5, None, route="/v1/completions"),
    counter("vllm_router_requests_total", 5, None, route="/v1/completions"),
    counter("vllm_router_pd_prefill_requests_total", 6, None, worker="http://p"),
    counter("vllm_router_pd_decode_requests_total", 5, None, worker="http://d"),
    counter("vllm_router_pd_errors_total", 1, None, error_type="prefill"),
    histogram("vllm_router_pd_request_duration_seconds", {0.5: 5}, 1.0, None, route="/v1/completions"),
)
SMG = page(
    counter("smg_router_requests_total", 4, None, router_type="http", backend_type="pd"),
    counter("smg_router_request_errors_total", 1, None, error_type="timeout"),
    histogram("smg_pd_ttft_seconds", {0.5: 4}, 1.0, None, model="m"),
)
GEN_AI = page(
    histogram("gen_ai_server_time_to_first_token_seconds", {0.5: 4}, 1.0, None, gen_ai_request_model="m"),
    histogram("gen_ai_server_request_duration_seconds", {0.5: 0, 5.0: 4}, 8.0, None, gen_ai_request_model="m"),
)
ENVOY = page(
    counter("envoy_http_downstream_rq_total", 10, None, envoy_http_conn_manager_prefix="ingress"),
    counter("envoy_http_downstream_rq_total", 99, None, envoy_http_conn_manager_prefix="admin"),
    counter(
        "envoy_http_downstream_rq_xx", 2, None, envoy_http_conn_manager_prefix="ingress", envoy_response_code_class="5"
    ),
    histogram(
        "envoy_http_downstream_rq_time", {500.0: 4, 1000.0: 10}, 6000.0, None, envoy_http_conn_manager_prefix="ingress"
    ),
)
ENGINE = page(counter("vllm:generation_tokens_total", 5), gauge("vllm:num_requests_running", 1))
PAGES: dict[KnownKind, str] = {
    "llm-d-epp": EPP,
    "production-stack": PRODUCTION_STACK,
    "vllm-router": VLLM_ROUTER,
    "smg": SMG,
    "gen-ai": GEN_AI,
    "envoy": ENVOY,
}


@pytest.fixture
def recorded(repository: Path):
    def text(name: str) -> str:
        return (repository / "tests" / "data" / "dynamo" / f"{name}.prom").read_text(encoding="utf-8")

    return text


def counters(reading: Reading) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for index, value in reading.counters.items():
        series = reading.layout.counters[index]
        found[series.metric, series.label] = found.get((series.metric, series.label), 0.0) + value
    return found


def histograms(reading: Reading) -> dict[str, tuple[float, float | None]]:
    """Metric -> (count, sum), over all its series."""
    found: dict[str, tuple[float, float | None]] = {}
    for index, value in reading.histograms.items():
        metric = reading.layout.histograms[index].series.metric
        count, total = found.get(metric, (0.0, 0.0))
        found[metric] = count + sum(value.counts), None if value.total is None or total is None else total + value.total
    return found


@pytest.mark.parametrize("kind", PAGES)
def test_every_kind_of_router_is_known_by_its_page(kind: KnownKind):
    assert kind_of(PAGES[kind]) == kind
    assert RouterReader("auto").read(1.0, "r", PAGES[kind]).layout.names


@pytest.mark.parametrize("kind", PAGES)
def test_no_routers_page_is_read_as_an_engine(kind: KnownKind):
    with pytest.raises(NotVllm):
        PageReader().read(1.0, "decode-0", PAGES[kind])


@pytest.mark.parametrize("kind", PAGES)
def test_a_router_gives_metrics_of_its_own_names_and_of_no_engine(kind: KnownKind):
    reading = RouterReader(kind).read(1.0, "r", PAGES[kind])
    assert reading.layout.engines == ()
    series = [*reading.layout.counters, *reading.layout.gauges, *(key.series for key in reading.layout.histograms)]
    assert series
    assert {key.engine for key in series} == {TARGET_WIDE}
    assert all(key.metric.startswith("router_") for key in series)


def test_the_endpoint_pickers_ttft_is_that_of_streamed_answers_and_old_names_are_not_added():
    reading = RouterReader("llm-d-epp").read(1.0, "r", EPP)
    assert histograms(reading)["router_ttft"] == (4.0, 2.5)
    assert counters(reading) == {("router_requests", ""): 7.0, ("router_errors", ""): 1.0}
    window = TargetWindow(900.0)
    window.take(reading)
    assert sum(window.gauge("router_queued").values()) == 7.0
    assert sum(window.gauge("router_running").values()) == 2.0


def test_an_endpoint_picker_that_has_only_old_names_is_read_by_them():
    old = page(
        counter("inference_model_request_total", 3, None, model_name="m"),
        histogram("inference_objective_request_ttft_seconds", {1.0: 3}, 1.5, None, model_name="m"),
    )
    reading = RouterReader("auto").read(1.0, "r", old)
    assert counters(reading) == {("router_requests", ""): 3.0}
    assert histograms(reading) == {"router_ttft": (3.0, 1.5)}


def test_a_time_that_ends_with_response_headers_is_not_read():
    for kind in ("vllm-router", "smg"):
        reading = RouterReader(kind).read(1.0, "r", PAGES[kind])
        assert reading.layout.histograms == ()


def test_vllm_router_counts_each_request_once_and_its_legs_apart():
    reading = RouterReader("vllm-router").read(1.0, "r", VLLM_ROUTER)
    assert counters(reading) == {
        ("router_requests", ""): 5.0,
        ("router_prefill_requests", ""): 6.0,
        ("router_decode_requests", ""): 5.0,
        ("router_errors", ""): 1.0,
    }


def test_production_stack_repeats_gauges_of_engines_which_are_not_read():
    reading = RouterReader("auto").read(1.0, "r", PRODUCTION_STACK)
    assert reading.layout.gauges == ()
    assert counters(reading) == {("router_requests", ""): 9.0}
    assert histograms(reading) == {"router_e2e": (8.0, 20.0)}


def test_envoys_own_administration_is_no_traffic():
    reading = RouterReader("envoy").read(1.0, "r", ENVOY)
    assert counters(reading) == {("router_requests", ""): 10.0, ("router_responses", "5"): 2.0}
    assert histograms(reading) == {"router_e2e_milliseconds": (10.0, 6000.0)}


def test_a_page_of_another_kind_says_whose_it_is():
    with pytest.raises(NotRouter, match=r"is router\.kind llm-d-epp\?"):
        RouterReader("dynamo").read(1.0, "r", EPP)
    with pytest.raises(NotRouter, match="list it under pools"):
        RouterReader("auto").read(1.0, "r", ENGINE)
    with pytest.raises(NotRouter, match="HTML"):
        RouterReader("auto").read(1.0, "r", "<html>no</html>\n")
    assert kind_of(ENGINE) is None


def test_a_router_that_has_counted_nothing_yet_shows_an_empty_page():
    reader = RouterReader("vllm-router")
    assert reader.read(1.0, "r", "").layout.names == {}
    assert reader.read(2.0, "r", VLLM_ROUTER).fresh
    with pytest.raises(NotRouter):
        RouterReader("auto").read(1.0, "r", "")


def test_an_automatic_kind_follows_what_stands_behind_the_address():
    reader = RouterReader("auto")
    kinds = []
    for t, text in enumerate((EPP, ENVOY)):
        assert reader.read(float(t), "r", text).fresh
        kinds.append(reader.kind)
    assert kinds == ["llm-d-epp", "envoy"]


def test_a_second_series_of_one_meaning_does_not_count_the_first_again():
    window, reader = TargetWindow(900.0), RouterReader("vllm-router")

    def at(t: float, **by_route: float):
        lines = [
            counter("vllm_router_pd_requests_total", value, None, route=route) for route, value in by_route.items()
        ]
        window.take(reader.read(t, "r", page(*lines)))

    at(0.0, chat=100)
    at(10.0, chat=105)
    at(20.0, chat=106, completions=2)
    gained = window.increases(0.0, 30.0).engines[TARGET_WIDE]
    assert sum(gained.labels("router_requests").values()) == 8.0


def test_dynamos_real_pages_give_the_users_ttft_and_every_request(recorded):
    window, reader = TargetWindow(900.0), RouterReader("auto")
    for t, name in enumerate(("idle", "before", "after", "last")):
        reading = reader.read(float(t), "frontend", recorded(f"frontend-{name}"))
        assert reading.problems == ()
        window.take(reading)
    assert reader.kind == "dynamo"
    gained = window.increases(1.0, 2.0).engines[TARGET_WIDE]
    ttft = gained.histograms["router_ttft"]
    assert ttft.count == 60
    assert ttft.mean == pytest.approx(0.080003, abs=1e-6)  # the client measured 0.109 s, connecting included
    assert gained.labels("router_requests") == {"success": 60.0}
    assert gained.histograms["router_itl"].count == 60 * 11
    later = window.increases(2.0, 3.0).engines[TARGET_WIDE]
    assert later.labels("router_requests") == {"success": 1.0, "error": 1.0}


def test_a_changed_prefix_is_read_when_configured_and_found_when_not(recorded):
    text = recorded("renamed-after")
    assert changed_prefix("dynamo", text) == "myapp"
    assert changed_prefix("dynamo", recorded("frontend-after")) == ""
    for reader in (RouterReader("dynamo", "myapp"), RouterReader("dynamo"), RouterReader("auto")):
        before = histograms(reader.read(1.0, "frontend", recorded("renamed-before")))["router_ttft"][0]
        assert histograms(reader.read(2.0, "frontend", text))["router_ttft"][0] - before == 16


def test_dynamos_workers_are_read_as_servers_whatever_order_and_form_their_labels_have(recorded):
    reader, window = PageReader(), TargetWindow(900.0)
    for t, name in enumerate(("before", "after")):
        reading = reader.read(float(t), "decode-0", recorded(f"decode-{name}"))
        assert reading.problems == ()
        assert reading.layout.engines == ("0", "1")
        window.take(reading)
    gained = window.increases(0.0, 1.0).engines
    assert sum(gained[engine].histograms["ttft"].count for engine in ("0", "1")) == 60
    assert 1.0 in gained["0"].histograms["e2e"].edges  # written le="1", where vLLM itself writes le="1.0"
    with pytest.raises(NotVllm, match="Dynamo"):
        reader.read(2.0, "prefill-0", recorded("prefill-after"))


def test_every_kind_names_only_metrics_it_can_be_known_by():
    for kind, shown in ROUTERS.items():
        for name in shown.rows:
            if name.metric != "process_start_time_seconds":
                known = [alias for alias in name.aliases if alias.startswith(shown.marks)]
                assert known or kind == "production-stack"
