"""The running process: that it watches, serves, survives what breaks, records, and ends when it is told to."""

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent import runtime
from agent.config import Config, Pool, Scrape, Target
from agent.duties import LoopLag
from agent.errors import ConfigError, RecordingError
from agent.model import OWN_TARGET, FailureObservation, Observation, PageObservation, ProcessesObservation
from agent.outputs.live import Live
from agent.runtime import Stop, record_world, watch_world
from agent.sources.http import PageSource
from agent.sources.local_processes import ProcessSource, local_targets
from agent.sources.recordings import read_recording
from agent.watch import Watch
from tests.outputs import fleet
from tests.sources.loopback import Request, Server, TurnedClock, response, serving

INTERVAL_SECONDS = 5.0
SLEEPERS = 7
"""Two scrapes, the processes, the loop's lag, the verdicts, the log and the history."""


def answer_with_fleet() -> Callable[[Request, asyncio.StreamWriter], Awaitable[None]]:
    """Each target's page moves on by one round whenever it is asked."""
    asked = {"/prefill": 0, "/decode": 0}

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        n = asked[request.path]
        asked[request.path] += 1
        text = fleet.prefill_page(2 * n) if request.path == "/prefill" else fleet.decode_page(n)
        writer.write(response(text.encode(), "Content-Type: text/plain; version=0.0.4"))

    return answer


def config_of(server: Server) -> Config:
    base = server.url.removesuffix("/metrics")
    pools = [
        Pool(name=role, role=role, targets=(Target(f"{role}-0", f"{base}/{role}"),)) for role in ("prefill", "decode")
    ]
    return Config(pools=tuple(pools), scrape=Scrape(interval_seconds=INTERVAL_SECONDS), listen="127.0.0.1:0")


@asynccontextmanager
async def running(config: Config, clock: TurnedClock) -> AsyncIterator[tuple[Live, Stop, io.StringIO]]:
    """A whole pdwatch in this process; it is told to stop at the end, and must."""
    stop, out = Stop(), io.StringIO()
    begun: asyncio.Future[Live] = asyncio.get_running_loop().create_future()
    world = asyncio.create_task(
        watch_world(config, stop, listen="127.0.0.1:0", out=out, clock=clock, on_start=begun.set_result)
    )
    either: set[asyncio.Future[Any]] = {begun, world}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if world.done():
        await world  # it ended before it began: with its error
    try:
        yield begun.result(), stop, out
    finally:
        stop.want(0)
        async with asyncio.timeout(10):
            await world


async def get_state(live: Live) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{live.listening}api/v1/state") as answer:
        assert answer.status == 200
        state: dict[str, Any] = await answer.json()
        return state


async def test_it_scrapes_the_targets_and_serves_their_numbers() -> None:
    clock = TurnedClock()
    async with serving(answer_with_fleet()) as server, running(config_of(server), clock) as (live, _, out):
        for _ in range(4):
            await clock.sleeping(SLEEPERS)
            clock.turn(INTERVAL_SECONDS)
        await clock.sleeping(SLEEPERS)
        state = await get_state(live)
        assert out.getvalue() == f"pdwatch is at {live.listening}\n"
    decode = state["pools"]["decode"]
    assert decode["targets"]["decode-0"]["up"] is True
    assert decode["latency"]["tpot"]["mean"] == pytest.approx(0.02)
    assert state["system"]["ttft"]["mean"] == pytest.approx(2.0)
    assert live.own().loop_lag_seconds is not None
    assert live.own().skipped_scrapes == 0


async def test_after_the_end_nobody_listens_and_no_task_is_left() -> None:
    before = asyncio.all_tasks()
    async with serving(answer_with_fleet()) as server, running(config_of(server), TurnedClock()) as (live, _, _):
        address = live.listening
    assert asyncio.all_tasks() == before
    with pytest.raises(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as session:
            await session.get(address)


async def test_an_observation_that_breaks_the_engine_is_a_counted_problem_and_the_watch_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observe = Watch.observe

    def broken(self: Watch, observation: Observation) -> None:
        if isinstance(observation, PageObservation) and observation.target == "decode-0":
            raise ZeroDivisionError("a bug")
        observe(self, observation)

    monkeypatch.setattr(Watch, "observe", broken)
    clock = TurnedClock()
    async with serving(answer_with_fleet()) as server, running(config_of(server), clock) as (live, _, _):
        for _ in range(3):
            await clock.sleeping(SLEEPERS)
            clock.turn(INTERVAL_SECONDS)
        await clock.sleeping(SLEEPERS)
        state = await get_state(live)
    assert live.defects.counts["observe"] >= 2
    assert "agent_error" in {problem["code"] for problem in state["problems"]}
    assert state["pools"]["prefill"]["latency"]["ttft"]["count"] > 0


async def test_a_part_that_breaks_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0
    run = PageSource.run

    async def breaks_once(self: PageSource) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise RuntimeError("a bug")
        await run(self)

    monkeypatch.setattr(PageSource, "run", breaks_once)
    clock = TurnedClock()
    async with serving(answer_with_fleet()) as server, running(config_of(server), clock) as (live, _, _):
        await clock.sleeping(SLEEPERS - 1)
        clock.turn(runtime.AGAIN_AFTER_SECONDS)
        await clock.sleeping(SLEEPERS)
        clock.turn(INTERVAL_SECONDS)
        await clock.sleeping(SLEEPERS)
        assert live.ready
        assert live.defects.counts == {"pages": 1}


async def test_problems_are_logged_when_they_begin(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status="503 Service Unavailable"))

    clock = TurnedClock()
    async with serving(refuse) as server, running(config_of(server), clock):
        for _ in range(4):
            await clock.sleeping(SLEEPERS)
            clock.turn(INTERVAL_SECONDS)
        await clock.sleeping(SLEEPERS)
    assert "unreachable: decode-0: http_503" in caplog.text


async def test_what_comes_before_is_done_before_anything_is_served_and_what_is_beside_is_kept_going() -> None:
    clock, stop, out = TurnedClock(wall=fleet.BEGIN), Stop(), io.StringIO()
    done: list[str] = []

    async def before(live: Live) -> None:
        done.append(f"before, at {live.listening!r}")
        for observation in fleet.observations(3):
            live.observe(observation)

    async def beside() -> None:
        done.append("beside")
        if done.count("beside") == 1:
            raise RuntimeError("a bug")

    async with serving(answer_with_fleet()) as server:
        work = asyncio.create_task(
            watch_world(
                config_of(server),
                stop,
                listen="127.0.0.1:0",
                out=out,
                clock=clock,
                on_start=lambda live: done.append(f"ready: {live.ready}"),
                before=before,
                beside={"another": beside},
            )
        )
        await clock.sleeping(SLEEPERS + 1)
        clock.turn(runtime.AGAIN_AFTER_SECONDS)
        await clock.sleeping(SLEEPERS)
        stop.want(0)
        async with asyncio.timeout(10):
            await work
    assert done == ["before, at ''", "ready: True", "beside", "beside"]


async def test_a_taken_port_ends_the_start_with_one_sentence() -> None:
    async with serving(answer_with_fleet()) as server:
        port = server.url.split(":")[2].split("/")[0]
        with pytest.raises(ConfigError, match="is taken by another process"):
            await watch_world(config_of(server), Stop(), listen=f"127.0.0.1:{port}", out=io.StringIO())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_a_signal_ends_the_work_with_its_exit_code(number: signal.Signals, code: int) -> None:
    async def work(stop: Stop) -> None:
        os.kill(os.getpid(), number)
        await stop.wanted.wait()

    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(10):
            assert await runtime._until_signal(work) == code
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


async def test_the_first_wish_to_stop_decides() -> None:
    stop = Stop()
    stop.want(130)
    stop.want(0)
    assert stop.exit_code == 130


async def test_a_recording_holds_what_the_targets_showed(tmp_path: Path) -> None:
    clock, stop, path = TurnedClock(wall=fleet.BEGIN), Stop(), tmp_path / "out.jsonl.gz"
    async with serving(answer_with_fleet()) as server:
        work = asyncio.create_task(record_world(config_of(server), path, stop, 12.0, clock))
        for _ in range(3):
            await clock.sleeping(4)  # two scrapes, the processes, the end
            clock.turn(INTERVAL_SECONDS)
        async with asyncio.timeout(10):
            await work
    pages = [line for line in read_recording([path]) if isinstance(line, PageObservation)]
    assert {line.target for line in pages} == {"prefill-0", "decode-0"}
    watch = Watch(fleet.config())
    for page in pages:
        watch.observe(page)
    assert watch.state(pages[-1].t).pools["decode"].latency["tpot"].mean == pytest.approx(0.02)


async def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "there.jsonl"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(RecordingError, match="exists already"):
        await record_world(fleet.config(), path, Stop())
    assert path.read_text(encoding="utf-8") == "precious"


async def test_a_disk_that_is_full_ends_a_recording_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise RecordingError("no space left")

    monkeypatch.setattr("agent.runtime.RecordingWriter.write", full)
    clock = TurnedClock()
    async with serving(answer_with_fleet()) as server:
        work = asyncio.create_task(record_world(config_of(server), tmp_path / "x.jsonl", Stop(), None, clock))
        await clock.sleeping(2)
        clock.turn(INTERVAL_SECONDS)
        async with asyncio.timeout(10):
            with pytest.raises(RecordingError, match="no space left"):
                await work


async def test_the_lag_of_the_loop_is_the_longest_of_the_last_minute() -> None:
    clock = TurnedClock()
    lag = LoopLag(clock)
    assert lag.longest() is None
    task = asyncio.create_task(lag.run())
    for seconds in (1.0, 1.7, 1.0):
        await clock.sleeping(1)
        clock.turn(seconds)
    await clock.sleeping(1)
    assert lag.longest() == pytest.approx(0.7)
    for _ in range(60):
        clock.turn(1.0)
        await clock.sleeping(1)
    assert lag.longest() == 0
    task.cancel()


@pytest.mark.parametrize(
    ("url", "mode", "port"),
    [
        ("http://127.0.0.1:8000/metrics", "central", 8000),
        ("http://[::1]:8100/metrics", "central", 8100),
        ("https://localhost/metrics", "central", 443),
        ("http://10.0.0.1:8000/metrics", "central", None),
        ("http://10.0.0.1:8000/metrics", "sidecar", 8000),
    ],
)
def test_processes_are_looked_for_where_a_target_can_be_on_this_host(url: str, mode: Any, port: int | None) -> None:
    config = Config(mode=mode, pools=(Pool(name="p", role="both", targets=(Target("t", url),)),))
    assert {name: hint.port for name, hint in local_targets(config).items()} == ({} if port is None else {"t": port})


async def test_targets_elsewhere_cost_no_look_at_other_processes_than_our_own() -> None:
    config = Config(pools=(Pool(name="p", role="both", targets=(Target("t", "http://10.0.0.1/metrics"),)),))
    seen: list[Observation] = []
    clock = TurnedClock()
    task = asyncio.create_task(ProcessSource(config, seen.append, clock).run())
    await clock.sleeping(1)
    task.cancel()
    (own,) = seen
    assert isinstance(own, ProcessesObservation)
    assert (own.target, [sample.pid for sample in own.processes]) == (OWN_TARGET, [os.getpid()])


async def test_an_observation_of_a_target_that_is_not_configured_is_counted() -> None:
    live = fleet.live(rounds=0)
    live.observe(FailureObservation(fleet.BEGIN, "stranger", "refused"))
    assert live.own().ignored_observations == 1
    assert not live.ready
