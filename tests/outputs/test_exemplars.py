"""Exemplars on the metrics page: in OpenMetrics alone, well-formed, and taken by a real Prometheus."""

import asyncio
import json
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from agent.model import SpansObservation
from agent.outputs.live import Live
from agent.outputs.metrics import render
from agent.outputs.web import start_server
from agent.watch import Watch
from tests.outputs import fleet
from tests.spans import TRACE, decode_span, prefill_span

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def traced(request: str = "cmpl-a-0", ahead: float = 0.0) -> Live:
    """The small fleet, and both legs of one request with the times that its histograms hold; `ahead` moves all."""
    live = Live(Watch(fleet.config()), lambda: fleet.END + ahead, lambda: 100.0)
    for observation in fleet.observations():
        live.observe(replace(observation, t=observation.t + ahead))
    start = fleet.BEGIN + ahead
    first = replace(prefill_span(request, start), ttft_seconds=1.5)
    second = decode_span(request, start + 1.7, ttft=0.4, tokens=21, tpot=0.02)
    live.observe(SpansObservation(start + 3.0, "prefill-0", (first,)))
    live.observe(SpansObservation(start + 3.0, "decode-0", (second,)))
    return live


def shown(live: Live) -> dict[tuple[str, str, str], Any]:
    """(histogram, pool, le) -> exemplar, as prometheus_client reads it."""
    body = render(live.samples(), OPENMETRICS)[0].decode()
    return {
        (sample.name, sample.labels["pool"], sample.labels["le"]): sample.exemplar
        for family in parse_openmetrics(body)
        for sample in family.samples
        if sample.exemplar is not None
    }


def test_the_bucket_that_counts_a_leg_shows_its_trace() -> None:
    found = shown(traced())
    assert {key: exemplar.value for key, exemplar in found.items()} == {
        ("pdwatch_ttft_seconds_bucket", "prefill", "2.5"): pytest.approx(1.5),
        ("pdwatch_ttft_seconds_bucket", "decode", "0.5"): pytest.approx(0.4),
        ("pdwatch_tpot_seconds_bucket", "decode", "0.025"): pytest.approx(0.02),
    }
    assert all(exemplar.labels == {"trace_id": TRACE, "request": "cmpl-a-0"} for exemplar in found.values())
    assert all(fleet.BEGIN <= float(exemplar.timestamp) <= fleet.END for exemplar in found.values())


def test_an_id_that_is_too_long_for_an_exemplar_leaves_the_trace_alone() -> None:
    assert {len(exemplar.labels) for exemplar in shown(traced("x" * 81)).values()} == {2}
    assert {tuple(exemplar.labels) for exemplar in shown(traced("x" * 82)).values()} == {("trace_id",)}


def test_who_asks_for_plain_text_gets_none_and_the_same_numbers() -> None:
    live, without = traced(), fleet.live()
    text = render(live.samples(), "text/plain")[0].decode()
    assert " # {" not in text
    buckets = [line for line in text.splitlines() if line.startswith("pdwatch_ttft_seconds_bucket")]
    assert buckets == [
        line
        for line in render(without.samples(), "text/plain")[0].decode().splitlines()
        if line.startswith("pdwatch_ttft_seconds_bucket")
    ]


def test_a_bucket_that_counts_nothing_has_no_example() -> None:
    live = traced()
    # A leg of 7 s that no page has counted yet.
    live.observe(SpansObservation(fleet.END, "decode-0", (decode_span("cmpl-b", fleet.END - 8.0, ttft=7.0, tokens=2),)))
    assert ("pdwatch_ttft_seconds_bucket", "decode", "10.0") not in shown(live)


async def ask(session: aiohttp.ClientSession, url: str, found: str) -> Any:
    """Asks again until the answer holds something below `found`; Prometheus scrapes when it likes."""
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        try:
            async with session.get(url) as answer:
                data = json.loads(await answer.read()).get("data")
                if data and (data[found] if isinstance(data, dict) else data):
                    return data
        except (aiohttp.ClientConnectionError, json.JSONDecodeError):
            pass  # it has not started yet
        await asyncio.sleep(0.1)
    raise AssertionError(f"nothing came of {url}")


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
async def test_a_real_prometheus_takes_the_page_and_keeps_its_exemplars(tmp_path: Path) -> None:
    live = traced(ahead=time.time() - fleet.END)
    runner = await start_server(live, "127.0.0.1:0")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    configuration = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": "pdwatch", "static_configs": [{"targets": [live.listening.split("/")[2]]}]},
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))
    prometheus = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
        "--log.level=error",
    )
    try:
        async with aiohttp.ClientSession() as session:
            query = f"query=pdwatch_ttft_seconds_bucket&start={time.time() - 600}&end={time.time() + 60}"
            kept = await ask(session, f"http://{address}/api/v1/query_exemplars?{query}", "result")
            targets = await ask(session, f"http://{address}/api/v1/targets", "activeTargets")
    finally:
        prometheus.terminate()
        await prometheus.wait()
        await runner.cleanup()
    assert [(target["health"], target["lastError"]) for target in targets["activeTargets"]] == [("up", "")]
    found = {
        (series["seriesLabels"]["pool"], series["seriesLabels"]["le"]): series["exemplars"][0]["labels"]
        for series in kept
    }
    wanted = {"trace_id": TRACE, "request": "cmpl-a-0"}
    assert found == {("prefill", "2.5"): wanted, ("decode", "0.5"): wanted}
