"""The metrics page: what is on it, what is not, and that it is one that Prometheus reads."""

import math
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.catalogue import CATALOGUE
from agent.export.metrics_docs import metrics_document
from agent.model import SpansObservation
from agent.outputs.delivery.figures import DeliveryFigures, ReceiverFigures
from agent.outputs.metrics import render
from agent.outputs.sample import Buckets
from agent.outputs.samples import MOST_CAUSE_CHARACTERS, Snapshot, samples
from agent.sources.traces import TraceCounts
from agent.sources.traces_forward import ForwardCounts
from agent.state import Bounded, Quantile, State
from tests.golden import assert_golden
from tests.outputs import fleet

OPENMETRICS = "application/openmetrics-text; version=1.0.0"

SUFFIXED = {"seconds": "_seconds", "bytes": "_bytes", "ratio": "_ratio"}


def page(snapshot: Snapshot, accept: str = "", deployment: str | None = None) -> str:
    return render(samples(snapshot), accept, deployment)[0].decode()


def all_known(snapshot: Snapshot) -> Snapshot:
    """The same, with a value wherever the small fleet has none."""
    state = snapshot.state
    system = replace(
        state.system,
        goodput_tokens_per_s_per_gpu=3.0,
        objectives_met_share=0.9,
        ttft=replace(state.system.ttft, quantiles={"0.5": Quantile(1.0, 0.5, 2.5)}),
    )
    verdicts = tuple(
        replace(verdict, value=1.0, low=0.5, high=2.0, status="firing", cause={"code": "step_time", "text": "slower"})
        for verdict in state.verdicts
    )
    bounded = Bounded(2.0, 1.0, 3.0)
    memory = tuple(
        replace(process, limit_bytes=2**40, slope_bytes_per_hour=bounded, hours_to_limit=bounded)
        for process in state.memory
    )
    figures = DeliveryFigures(leased=True)
    figures.receivers.append(ReceiverFigures("webhook", attempts=3, failures={"timeout": 2}, last_success=fleet.BEGIN))
    own = replace(
        snapshot.own,
        delivery=figures,
        spans=TraceCounts(bodies=2, spans=40, refused=Counter({413: 1})),
        forwarded=ForwardCounts(sent=2),
    )
    watch = fleet.live().watch
    watch.requests.take(SpansObservation(fleet.BEGIN, "decode-0", ()))
    traced = replace(watch.state(fleet.END), system=system, memory=memory, verdicts=verdicts)
    return replace(snapshot, state=traced, own=own)


def values(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, str(sorted(sample.labels.items()))): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def test_the_whole_page_is_as_it_was() -> None:
    assert_golden(Path("metrics_page.txt"), page(fleet.snapshot(fleet.live())))


def test_the_page_has_the_numbers_of_the_fleet() -> None:
    found = values(page(fleet.snapshot(fleet.live())))
    decode = "[('pool', 'decode')]"
    assert found["pdwatch_pool_tpot_mean_seconds", decode] == pytest.approx(0.02)
    assert found["pdwatch_pool_acceptance_length_tokens", decode] == pytest.approx(2.0)
    assert found["pdwatch_system_ttft_mean_seconds", "[]"] == pytest.approx(1.6 + 0.4)
    assert found["pdwatch_target_up", "[('pool', 'decode'), ('target', 'decode-0')]"] == 1


def test_every_metric_of_the_catalogue_is_exported_once_its_value_is_known() -> None:
    exported = {sample.metric.name for sample in samples(all_known(fleet.snapshot(fleet.live())))}
    assert exported == set(CATALOGUE)


def test_every_sample_is_that_of_a_catalogued_metric_with_a_value_for_each_label() -> None:
    for sample in samples(all_known(fleet.snapshot(fleet.live()))):
        assert CATALOGUE[sample.metric.name] is sample.metric
        assert len(sample.labels) == len(sample.metric.labels)


def test_no_series_is_given_twice() -> None:
    series = [(sample.metric.name, sample.labels) for sample in samples(fleet.snapshot(fleet.live()))]
    assert len(series) == len(set(series))


def test_two_problems_that_differ_in_their_text_alone_are_one_series() -> None:
    snapshot = fleet.snapshot(fleet.live())
    first = snapshot.state.problems[0]
    doubled = replace(snapshot.state, problems=(first, replace(first, text="the same in other words")))
    found = [sample for sample in samples(replace(snapshot, state=doubled)) if sample.metric.name == "pdwatch_problem"]
    assert len(found) == 1


def test_two_processes_of_one_title_are_one_series_of_their_bytes_together() -> None:
    snapshot = fleet.snapshot(fleet.live())
    (process,) = snapshot.state.memory
    twins = replace(snapshot.state, memory=(process, replace(process, pid=42)))
    found = values(page(replace(snapshot, state=twins)))
    assert sum(value for (name, _), value in found.items() if name == "pdwatch_memory_rss_bytes") == 2 * 2**30


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_a_name_follows_the_rules_of_prometheus(metric) -> None:
    assert re.fullmatch(r"pdwatch_[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith("_info") == (metric.kind == "info")
    assert not metric.name.endswith(("_bucket", "_sum", "_count"))
    if metric.unit in SUFFIXED:
        assert metric.name.removesuffix("_total").endswith(SUFFIXED[metric.unit])
    assert metric.help.endswith(".")
    assert not set(metric.labels) & {"le", "quantile", "instance", "job", "pid", "window"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say_against_the_page() -> None:
    text = page(all_known(fleet.snapshot(fleet.live())))
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_openmetrics_is_given_to_those_who_ask_for_it_with_the_same_values() -> None:
    snapshot = fleet.snapshot(fleet.live())
    body, content_type = render(samples(snapshot), OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    modern = {
        (sample.name, str(sorted(sample.labels.items()))): sample.value
        for family in parse_openmetrics(body.decode())
        for sample in family.samples
    }
    assert modern == values(page(snapshot))


def test_what_is_not_known_has_no_series() -> None:
    nothing_yet = fleet.live(rounds=0)
    names = {sample.metric.name for sample in samples(fleet.snapshot(nothing_yet))}
    assert "pdwatch_target_up" in names
    assert not any(
        name.startswith(("pdwatch_engine_", "pdwatch_memory_")) or name.endswith("_mean_seconds") for name in names
    )
    assert "pdwatch_requests_finished_total" not in names


def test_a_count_that_the_pages_have_begins_at_zero_and_one_that_they_lack_is_left_out() -> None:
    found = values(page(fleet.snapshot(fleet.live(rounds=1))))
    assert found["pdwatch_kv_failed_transfers_total", "[('pool', 'decode')]"] == 0
    assert ("pdwatch_kv_failed_transfers_total", "[('pool', 'prefill')]") not in found


def test_numbers_that_are_no_numbers_are_left_out() -> None:
    snapshot = fleet.snapshot(fleet.live())
    broken = replace(snapshot.state.system, requests_per_s=math.nan, total_tokens_per_s_per_gpu=math.inf)
    text = page(replace(snapshot, state=replace(snapshot.state, system=broken)))
    assert "NaN" not in text
    assert "pdwatch_system_requests_per_second " not in text
    assert "pdwatch_system_tokens_per_second_per_gpu " not in text


def test_a_sum_that_cannot_be_trusted_is_left_out_with_its_count_which_the_last_bucket_carries() -> None:
    snapshot = fleet.snapshot(fleet.live())
    snapshot.totals["decode"].histograms["queue"].unsummed = 1.0
    found = {name for name, labels in values(page(snapshot)) if labels == "[('pool', 'decode')]"}
    assert "pdwatch_queue_time_seconds_count" not in found
    assert "pdwatch_queue_time_seconds_sum" not in found
    assert "pdwatch_ttft_seconds_sum" in found


def test_a_prefill_pool_has_no_time_per_output_token() -> None:
    text = page(fleet.snapshot(fleet.live()))
    assert not re.search(r'^pdwatch_(pool_|engine_)?(tpot|itl)\w*\{[^}]*pool="prefill"', text, re.MULTILINE)


def test_counters_and_histograms_only_grow_even_when_a_server_restarts() -> None:
    live = fleet.live(rounds=0)
    before: dict[tuple[str, str], float] = {}
    pages = [*fleet.observations(4), *(replace(o, t=o.t + 100) for o in fleet.observations(4))]
    for observation in pages:
        live.observe(observation)
        snapshot = replace(fleet.snapshot(live), padded_drafts={})
        now = {}
        for sample in samples(snapshot):
            if sample.metric.kind == "counter" and isinstance(sample.value, float | int):
                now[sample.metric.name, str(sample.labels)] = float(sample.value)
            elif isinstance(sample.value, Buckets):
                now[sample.metric.name, str(sample.labels)] = sum(sample.value.counts)
        assert all(now[series] >= value for series, value in before.items())
        before = now
    assert before["pdwatch_requests_finished_total", "('decode', 'stop')"] > 6


def test_padding_that_seems_to_shrink_does_not_make_its_counter_fall() -> None:
    live = fleet.live(rounds=4)

    def padded() -> list[float | Buckets]:
        return [s.value for s in live.samples() if s.metric.name == "pdwatch_padded_drafts_total"]

    assert padded() == [4.0]
    live.watch.windows.pools["decode"].total.counters["spec_drafts", ""] -= 1
    assert padded() == [4.0]


def test_a_target_that_is_gone_takes_its_series_with_it() -> None:
    snapshot = fleet.snapshot(fleet.live())
    state: State = snapshot.state
    without = replace(state, pools={"prefill": state.pools["prefill"]}, memory=(), problems=())
    assert 'target="decode-0"' in page(snapshot)
    assert "decode-0" not in page(replace(snapshot, state=without, totals={}))


def test_a_label_from_a_foreign_page_cannot_break_the_page() -> None:
    evil = 'x"} 1\npdwatch_forged 1\n\\ \udc80 é'
    snapshot = fleet.snapshot(fleet.live())
    decode = snapshot.state.pools["decode"]
    target = decode.targets["decode-0"]
    engines = {evil: target.engines["0"]}
    pools = {"decode": replace(decode, targets={"decode-0": replace(target, engines=engines)})}
    text = page(replace(snapshot, state=replace(snapshot.state, pools=pools)))
    found = [s for f in parse_text(text) for s in f.samples if s.name == "pdwatch_engine_requests_running"]
    assert [sample.labels["engine"] for sample in found] == [evil.replace("\udc80", "?")]
    assert "\npdwatch_forged" not in text


def test_the_deployment_is_a_label_of_every_series() -> None:
    live = fleet.live(deployment="glm-prod")
    for family in parse_text(page(fleet.snapshot(live), deployment="glm-prod")):
        for sample in family.samples:
            assert sample.labels["deployment"] == "glm-prod"


def test_the_document_of_all_metrics_is_up_to_date(repository: Path) -> None:
    assert_golden(repository / "docs" / "metrics.md", metrics_document())


def test_a_cause_is_shown_while_its_objective_is_pending_or_fires_and_its_text_is_bounded() -> None:
    snapshot = fleet.snapshot(fleet.live())
    cause = {"code": "step_time", "text": "long " * 1000}
    first = snapshot.state.verdicts[0]

    def causes(status: Literal["ok", "pending", "firing", "resolved"]) -> list[tuple[str, ...]]:
        told = (replace(first, status=status, cause=cause),)
        found = samples(replace(snapshot, state=replace(snapshot.state, verdicts=told)))
        return [sample.labels for sample in found if sample.metric.name == "pdwatch_cause_info"]

    ((objective, scope, code, text),) = causes("firing")
    assert (objective, scope, code) == (first.objective, first.scope, "step_time")
    assert len(text) <= MOST_CAUSE_CHARACTERS
    assert text.endswith("...")
    assert len(causes("pending")) == 1
    assert causes("resolved") == causes("ok") == []


def test_receivers_of_alerts_are_shown_by_name_with_what_they_did_not_take() -> None:
    found = values(page(all_known(fleet.snapshot(fleet.live()))))
    assert found["pdwatch_delivery_attempts_total", "[('receiver', 'webhook')]"] == 3
    assert found["pdwatch_delivery_failures_total", "[('reason', 'timeout'), ('receiver', 'webhook')]"] == 2
    assert found["pdwatch_delivery_last_success_timestamp_seconds", "[('receiver', 'webhook')]"] == fleet.BEGIN
    assert found["pdwatch_delivery_lease_held", "[]"] == 1
    assert found["pdwatch_delivery_muted_alerts", "[]"] == 0
    assert found["pdwatch_span_bodies_refused_total", "[('status', '413')]"] == 1


def test_no_lease_is_shown_where_no_receiver_needs_one() -> None:
    snapshot = fleet.snapshot(fleet.live())
    alone = DeliveryFigures(receivers=[ReceiverFigures("alertmanager")])
    names = {sample.metric.name for sample in samples(replace(snapshot, own=replace(snapshot.own, delivery=alone)))}
    assert "pdwatch_delivery_lease_held" not in names
    assert "pdwatch_delivery_last_success_timestamp_seconds" not in names
    assert "pdwatch_delivery_attempts_total" in names
