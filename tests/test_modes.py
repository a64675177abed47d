"""One binary, two modes: the sidecar reads and calls about its own host alone, the central sees memory through it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from aiohttp.test_utils import TestClient, TestServer

from agent.config import Alerting, Config, Pool, Target, Webhook
from agent.model import ProcessesObservation, ProcessSample, SourceProblem
from agent.outputs.live import Live
from agent.outputs.metrics import render
from agent.outputs.web import make_app
from agent.sources.sidecars import SidecarSource
from agent.verdicts.alert_rules import PROCESS_CODES
from agent.watch import Watch
from tests.sources.loopback import TurnedClock
from tests.verdicts.alarms import problem, verdict

MIB = 1 << 20


def live_of(mode: Literal["central", "sidecar"], clock: TurnedClock, url: str = "", sidecar: str = "") -> Live:
    target = Target("decode-0", url or "http://localhost:8000/metrics")
    sidecars = (Target("decode-0", sidecar),) if sidecar else ()
    config = Config(
        deployment="d",
        mode=mode,
        pools=(Pool(name="decode", role="decode", targets=(target,), sidecars=sidecars),),
        alerting=Alerting(webhooks=(Webhook(url="http://pager"),)),
    )
    return Live(Watch(config), clock.wall, clock.steady)


def reading(clock: TurnedClock, *problems: SourceProblem) -> ProcessesObservation:
    core = ProcessSample(41, "VLLM::EngineCore_DP0", 900_000.0, 7, "engine_core", "0", 9 * MIB, 5 * MIB, 0, 4 * MIB, 0)
    return ProcessesObservation(clock.wall(), "decode-0", (core,), None, problems)


def evaluated(live: Live, clock: TurnedClock) -> set[str]:
    """Codes and objectives that are told of after some minutes of everything standing."""
    standing = [problem(code) for code in ("pool_empty", "discovery_failed", "kv_stalled", "memory_leak")]
    standing.append(problem("process_gone", target="decode-0"))
    for _ in range(120):
        live.watch.incidents.evaluate([verdict()], standing, clock.wall())
        clock.turn(5.0)
    return {alert.labels.get("code") or alert.labels["objective"] for alert in live.watch.incidents.alerts}


def test_a_sidecar_calls_about_processes_and_about_nothing_else() -> None:
    clock = TurnedClock()
    assert evaluated(live_of("sidecar", clock), clock) <= PROCESS_CODES
    assert "memory_leak" in evaluated(live_of("sidecar", clock), clock)
    assert {"tpot", "kv_stalled"} & evaluated(live_of("central", clock), clock)


async def test_the_central_shows_what_the_sidecar_read_and_does_not_pass_it_on() -> None:
    clock = TurnedClock()
    aside = live_of("sidecar", clock)
    aside.observe_local(reading(clock))
    async with TestServer(make_app(aside)) as server:
        url = str(server.make_url("")).rstrip("/")
        central = live_of("central", clock, "http://10.0.0.9:8000/metrics", url)
        source = SidecarSource(central.config, central.observe, clock)
        task = asyncio.create_task(source.run())
        await clock.sleeping(1)
        clock.turn(15.0)
        await clock.sleeping(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert central.plain_state().memory == aside.plain_state().memory
    assert [memory.anon_bytes for memory in central.plain_state().memory] == [5 * MIB]
    assert list(memory_series(central)) == list(memory_series(aside))
    async with TestClient(TestServer(make_app(central))) as client:
        document = await (await client.get("/api/v1/processes")).json()
    assert document["observations"] == []


def memory_series(live: Live) -> Iterator[str]:
    body, _ = render(live.samples(), "", None)
    return (line for line in body.decode().splitlines() if line.startswith("pdwatch_memory_"))


async def test_the_sidecars_own_pages_carry_its_readings() -> None:
    clock = TurnedClock()
    aside = live_of("sidecar", clock)
    aside.observe_local(reading(clock, SourceProblem("process_gone", "decode-0", "a worker is gone", 9)))
    async with TestClient(TestServer(make_app(aside))) as client:
        state = await (await client.get("/api/v1/state")).json()
        page = await (await client.get("/metrics")).text()
        answer = await client.get("/api/v1/processes")
        document = await answer.json()
    assert answer.content_type == "application/json"
    assert state["memory"][0]["anon_bytes"] == 5 * MIB
    assert "pdwatch_memory_rss_bytes{" in page
    (line,) = document["observations"]
    assert (line["port"], line["processes"][0]["pid"], line["problems"][0]["code"]) == (8000, 41, "process_gone")
    assert document["at"] == clock.wall()


def test_a_target_that_loses_its_sidecar_is_unreadable_for_that_target_alone() -> None:
    clock = TurnedClock()
    central = live_of("central", clock)
    unreadable = SourceProblem("process_unreadable", "decode-0", "the pdwatch beside decode-0 is silent")
    central.observe(reading(clock))
    central.observe(replace(reading(clock), t=clock.wall() + 1, processes=(), problems=(unreadable,)))
    found = [one for one in central.plain_state().problems if one.code == "process_unreadable"]
    assert [one.target for one in found] == ["decode-0"]
