"""The running process with targets that are found: from a file to the state, by reload, by signal, into recordings."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent import runtime
from agent.config import load_config
from agent.model import PageObservation
from agent.outputs.live import Live
from agent.runtime import Stop, record_world, watch_world
from agent.sources.recordings import read_recording
from tests.sources.loopback import Server, TurnedClock, serving
from tests.test_runtime import answer_with_fleet

INTERVAL_SECONDS = 5.0


class Place:
    """A configuration and the list that it finds its targets in."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.address = server.url.removesuffix("/metrics").removeprefix("http://")
        self.list = folder / "targets.json"
        self.file = folder / "pdwatch.yaml"
        self.write("decode-0")
        self.configure()

    def write(self, *names: str) -> None:
        """Each target is the one server under another query, so that no two have one address."""
        groups = [
            {
                "targets": [self.address],
                "labels": {
                    "pdwatch_target": name,
                    "role": name.split("-")[0],
                    "__metrics_path__": f"/{name.split('-')[0]}",
                },
            }
            for name in names
        ]
        self.list.write_text(json.dumps(groups), encoding="utf-8")

    def configure(self, more: str = "") -> None:
        discovery = "discovery: {file_sd: {files: [targets.json]}, labels: {role: %s}}"
        self.file.write_text(
            f"pools:\n  prefill: {{role: prefill, {discovery % 'prefill'}}}\n"
            f"  decode: {{role: decode, {discovery % 'decode'}}}\n" + more,
            encoding="utf-8",
        )


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with serving(answer_with_fleet()) as server:
        yield Place(tmp_path, server)


@asynccontextmanager
async def running(place: Place, clock: TurnedClock) -> AsyncIterator[Live]:
    stop = Stop()
    begun: asyncio.Future[Live] = asyncio.get_running_loop().create_future()

    def load() -> Any:
        return load_config(place.file, {})

    with open(os.devnull, "w", encoding="utf-8") as out:  # noqa: PTH123, ASYNC230 - never blocks
        world = asyncio.create_task(
            watch_world(load(), stop, listen="127.0.0.1:0", out=out, clock=clock, on_start=begun.set_result, load=load)
        )
        either: set[asyncio.Future[Any]] = {begun, world}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if world.done():
            await world
        try:
            yield begun.result()
        finally:
            stop.want(0)
            async with asyncio.timeout(10):
                await world


async def pass_time(clock: TurnedClock, seconds: float) -> None:
    """Turns the clock in steps and lets everything be done that is due."""
    for _ in range(round(seconds)):
        clock.turn(1.0)
        for _ in range(40):  # sockets and threads need turns of the loop, not time
            await asyncio.sleep(0.0005)


def requests(live: Live) -> int:
    count = live.plain_state().pools["decode"].latency["tpot"].count
    assert count is not None
    return count


def targets(live: Live) -> dict[str, list[str]]:
    return {name: list(pool.targets) for name, pool in live.plain_state().pools.items()}


async def test_found_targets_are_scraped_and_leave_at_once_when_they_are_gone(place: Place) -> None:
    clock = TurnedClock()
    async with running(place, clock) as live:
        assert not live.ready, "nobody has been asked where the targets are"
        await pass_time(clock, 12)
        assert live.ready
        assert targets(live) == {"prefill": [], "decode": ["decode-0"]}
        assert live.plain_state().pools["decode"].targets["decode-0"].up
        assert ("pool_empty", "prefill") in {(problem.code, problem.pool) for problem in live.plain_state().problems}
        place.write("decode-0", "prefill-0")
        await pass_time(clock, 25)
        assert targets(live) == {"prefill": ["prefill-0"], "decode": ["decode-0"]}
        assert live.plain_state().pools["prefill"].targets["prefill-0"].up
        place.list.write_text('[{"targets": ["half', encoding="utf-8")
        await pass_time(clock, 15)
        assert targets(live) == {"prefill": ["prefill-0"], "decode": ["decode-0"]}
        assert "discovery_failed" in {problem.code for problem in live.plain_state().problems}
        place.write("prefill-0")
        await pass_time(clock, 15)
        assert targets(live) == {"prefill": ["prefill-0"], "decode": []}
        assert "unreachable" not in {problem.code for problem in live.plain_state().problems}
        page = "\n".join(f"{sample.metric.name} {sample.labels} {sample.value}" for sample in live.samples())
        assert "pdwatch_discovery_targets ('prefill',) 1" in page
        assert "pdwatch_discovery_failures_total ('decode', 'file_sd')" in page
    assert live.defects.counts == {}


async def test_a_reload_over_http_takes_effect_and_loses_nothing(place: Place) -> None:
    clock = TurnedClock()
    async with running(place, clock) as live, aiohttp.ClientSession() as session:
        await pass_time(clock, 22)
        observed = requests(live)
        assert observed > 0
        place.configure("links: {runbooks: 'http://r'}\nlisten: 127.0.0.1:1\nobjectives: []\n")
        async with session.post(f"{live.listening}-/reload") as answer:
            assert answer.status == 200
            said = await answer.json()
        assert set(said["changed"]) == {"links.runbooks", "objectives"}
        assert said["needs_restart"] == ["listen"]
        assert live.config.links.runbooks == "http://r"
        assert targets(live)["decode"] == ["decode-0"]
        assert requests(live) == observed
        place.configure("listn: x")
        async with session.post(f"{live.listening}-/reload") as answer:
            assert answer.status == 400
            assert "listn: unknown key" in (await answer.json())["error"]
        assert "config_reload_failed" in {problem.code for problem in live.plain_state().problems}
        await pass_time(clock, 10)
        assert requests(live) > observed
    assert live.defects.counts == {}


async def test_sighup_reloads(place: Place) -> None:
    clock = TurnedClock()
    loop = asyncio.get_running_loop()
    try:
        async with running(place, clock) as live:
            runtime._begun(live)
            place.configure("links: {runbooks: 'http://r'}\n")
            os.kill(os.getpid(), signal.SIGHUP)
            async with asyncio.timeout(10):
                while live.config.links.runbooks is None:  # noqa: ASYNC110 - a signal sets no event
                    await asyncio.sleep(0.005)
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def test_a_recording_has_the_targets_that_were_found(place: Place, tmp_path: Path) -> None:
    clock, path = TurnedClock(), tmp_path / "out.jsonl.gz"
    work = asyncio.create_task(record_world(load_config(place.file, {}), path, Stop(), 12.0, clock))
    await pass_time(clock, 14)
    async with asyncio.timeout(10):
        await work
    pages = [line for line in read_recording([path]) if isinstance(line, PageObservation)]
    assert {page.target for page in pages} == {"decode-0"}
