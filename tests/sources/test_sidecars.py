"""Readings of the pdwatch beside a server: real answers of the route over real sockets, and hostile ones."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.config import Config, Pool, Target
from agent.model import CgroupSample, Observation, ProcessesObservation, ProcessSample, SourceProblem
from agent.outputs.processes_json import ProcessReadings
from agent.sources.local_processes import local_targets
from agent.sources.sidecar_document import SidecarUnusable, read_readings
from agent.sources.sidecars import SidecarSource, sidecars_of
from agent.watch import Watch
from tests.sources.loopback import TurnedClock

GIB = 2**30
ROUND_SECONDS = 15.0


def sample(pid: int, started: float, anon: int) -> ProcessSample:
    return ProcessSample(
        pid, "VLLM::EngineCore_DP0", started, 7, "engine_core", "0", 2 * anon, anon, 0, anon, 0,
        threads=9, fds=None, cache_budget_bytes=3 * GIB,
    )  # fmt: skip


class Sidecar:
    """A pdwatch in sidecar mode, as far as its route goes; `ahead`: its clock against the central's."""

    def __init__(self, clock: TurnedClock, ahead: float = 0.0, name: str = "localhost:8000", port: int = 8000) -> None:
        self.clock, self.ahead = clock, ahead
        self.config = Config(
            mode="sidecar",
            pools=(Pool(name="p", role="both", targets=(Target(name, f"http://localhost:{port}/metrics"),)),),
        )
        self.readings = ProcessReadings(lambda: clock.wall() + self.ahead)
        self.answer: web.Response | None = None
        self.anon = GIB

    def read(self, *problems: SourceProblem) -> ProcessesObservation:
        """One round of the sidecar's own."""
        now = self.clock.wall() + self.ahead
        name = self.config.pools[0].targets[0].name
        started = 900_000.0 + self.ahead
        observation = ProcessesObservation(
            now, name, (sample(41, started, self.anon),), CgroupSample(8 * GIB), problems
        )
        self.readings.note(observation)
        return observation

    async def handle(self, _: web.Request) -> web.Response:
        if self.answer is not None:
            status, text = self.answer.status, self.answer.text
            return web.Response(status=status, text=text)
        return web.json_response(self.readings.document(self.config))


class Central:
    """A central pdwatch that asks one sidecar; `seen` is what it emits."""

    def __init__(self, sidecar: Sidecar, url: str, clock: TurnedClock) -> None:
        self.clock = clock
        sidecars = (Target("decode-0", url),)
        pool = Pool(
            name="decode",
            role="decode",
            targets=(Target("decode-0", "http://10.0.0.9:8000/metrics"),),
            sidecars=sidecars,
        )
        self.config = Config(pools=(pool,))
        self.seen: list[Observation] = []
        self.source = SidecarSource(self.config, self.seen.append, clock)
        self.task = asyncio.create_task(self.source.run())

    async def rounds(self, count: int = 1) -> None:
        for _ in range(count):
            await self.clock.sleeping(1)
            self.clock.turn(ROUND_SECONDS)
        await self.clock.sleeping(1)


@pytest.fixture
async def beside(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Sidecar, Central]]:
    """A sidecar and the central that asks it; parametrized by the sidecar's clock."""
    clock = TurnedClock()
    sidecar = Sidecar(clock, getattr(request, "param", 0.0))
    app = web.Application()
    app.router.add_get("/api/v1/processes", sidecar.handle)
    async with TestServer(app) as server:
        central = Central(sidecar, str(server.make_url("")).rstrip("/"), clock)
        yield sidecar, central
        central.task.cancel()
        await asyncio.gather(central.task, return_exceptions=True)


Beside = tuple[Sidecar, Central]


async def test_a_reading_comes_over_as_if_it_were_local(beside: Beside) -> None:
    sidecar, central = beside
    gone = SourceProblem("process_gone", "localhost:8000", "a worker is gone", 42)
    read = sidecar.read(gone)
    await central.rounds()
    assert central.seen == [replace(read, target="decode-0", problems=(replace(gone, target="decode-0"),))]


@pytest.mark.parametrize("beside", [-3600.0, -1.0, 1.0, 90.0, 86400.0], indirect=True)
async def test_the_sidecars_clock_is_brought_to_this_one(beside: Beside) -> None:
    sidecar, central = beside
    for _ in range(3):
        sidecar.read()
        await central.rounds()
    ahead = sidecar.ahead if abs(sidecar.ahead) > 2 else 0.0  # less is slewing
    read = [observation for observation in central.seen if isinstance(observation, ProcessesObservation)]
    assert len(read) == 3
    assert all(abs(one.t - at) <= 1.0 for one, at in zip(read, (1e6, 1e6 + 15, 1e6 + 30), strict=True))
    assert {one.processes[0].started_seconds for one in read} == {900_000.0 + sidecar.ahead - ahead}


async def test_a_reading_that_is_there_already_is_not_taken_twice(beside: Beside) -> None:
    sidecar, central = beside
    sidecar.read()
    await central.rounds(3)
    assert len(central.seen) == 1


async def test_a_silent_sidecar_is_said_once_and_never_is_0(beside: Beside) -> None:
    sidecar, central = beside
    watch = Watch(central.config)
    sidecar.read()
    await central.rounds()
    sidecar.answer = web.Response(status=503)
    await central.rounds(2)
    assert len(central.seen) == 1, "one answer may be lost"
    await central.rounds(5)
    _, said = central.seen
    for observation in central.seen:
        watch.observe(observation)
    state = watch.state(central.clock.wall())
    (problem,) = [problem for problem in state.problems if problem.code == "process_unreadable"]
    assert problem.target == "decode-0"
    assert "http_503" in problem.text
    assert state.memory == ()
    assert isinstance(said, ProcessesObservation)
    assert said.cgroup is None
    sidecar.answer = None
    sidecar.read()
    await central.rounds()
    watch.observe(central.seen[-1])
    state = watch.state(central.clock.wall())
    assert [memory.anon_bytes for memory in state.memory] == [GIB]
    assert "process_unreadable" not in {problem.code for problem in state.problems}


async def test_a_sidecar_that_stopped_reading_is_silent_too(beside: Beside) -> None:
    sidecar, central = beside
    sidecar.read()
    await central.rounds(6)
    assert [len(one.processes) for one in central.seen if isinstance(one, ProcessesObservation)] == [1, 0]
    assert "its last reading is" in central.seen[1].problems[0].text  # type: ignore[union-attr]


async def test_the_memory_watch_sees_a_leak_through_a_sidecar_as_it_does_locally(beside: Beside) -> None:
    sidecar, central = beside
    near, far = Watch(central.config), Watch(central.config)
    for _ in range(40):
        sidecar.anon += 1 << 20
        near.observe(replace(sidecar.read(), target="decode-0"))
        await central.rounds()
    for observation in central.seen:
        far.observe(observation)
    now = central.clock.wall()
    assert far.state(now).memory == near.state(now).memory
    assert len(far.state(now).memory) == 1


async def test_one_reading_is_not_taken_for_two_targets() -> None:
    clock = TurnedClock()
    sidecar = Sidecar(clock)
    app = web.Application()
    app.router.add_get("/api/v1/processes", sidecar.handle)
    async with TestServer(app) as server:
        central = Central(sidecar, str(server.make_url("")).rstrip("/"), clock)
        pool = central.config.pools[0]
        targets = (*pool.targets, Target("decode-1", "http://10.0.0.10:8000/metrics"))
        sidecars = tuple(Target(target.name, pool.sidecars[0].url) for target in targets)
        central.source.retarget(Config(pools=(replace(pool, targets=targets, sidecars=sidecars),)))
        sidecar.read()
        await central.rounds()
        for _ in range(4):
            sidecar.read()
            await central.rounds()
        central.task.cancel()
        await asyncio.gather(central.task, return_exceptions=True)
    read = [one for one in central.seen if isinstance(one, ProcessesObservation)]
    assert {one.target for one in read if one.processes} == {"decode-0"}
    (refused,) = [one for one in read if not one.processes]
    assert "is taken for target decode-0 already" in refused.problems[0].text


def test_a_target_with_a_sidecar_is_not_read_locally_too() -> None:
    here = Target("decode-0", "http://127.0.0.1:8000/metrics")
    pool = Pool(name="decode", role="decode", targets=(here,), sidecar_port=9838)
    assert local_targets(Config(pools=(pool,))) == {}
    assert sidecars_of(Config(pools=(pool,))) == {"http://127.0.0.1:9838": (here,)}
    aside = Config(pools=(pool,), mode="sidecar")
    assert list(local_targets(aside)) == ["decode-0"]
    assert sidecars_of(aside) == {}


def test_a_sidecar_is_named_or_discovered_or_on_a_port() -> None:
    targets = (
        Target("named", "http://a:8000/metrics", "http://ignored:1"),
        Target("found", "http://b:8000/metrics", "http://b:9000"),
        Target("plain", "https://[2001:db8::1]:8000/metrics"),
    )
    pool = Pool(name="p", role="decode", targets=targets, sidecar_port=9838, sidecars=(Target("named", "http://x:1"),))
    urls = [pool.sidecar_of(target) for target in targets]
    assert urls == ["http://x:1", "http://b:9000", "http://[2001:db8::1]:9838"]


def document(**more: Any) -> dict[str, Any]:
    process = {"pid": 1, "title": "VLLM::EngineCore", "started": 1.0, "rss_bytes": 1, "anon_bytes": 1}
    observation = {"t": 5.0, "target": "x", "port": 8000, "processes": [{**process, **more.pop("process", {})}], **more}
    return {"type": "processes", "at": 6.0, "instance": "i", "observations": [observation]}


def test_readings_are_found_by_name_or_by_port_and_not_guessed() -> None:
    readings = read_readings(document())
    assert readings.of(Target("x", "http://h:1/metrics")).target == "x"
    assert readings.of(Target("other", "http://h:8000/metrics")).target == "x"
    with pytest.raises(SidecarUnusable, match=r"it reads x \(8000\): none is named other or alone on port 8001"):
        readings.of(Target("other", "http://h:8001/metrics"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"type": "state"},
        {**document(), "at": "now"},
        {**document(), "at": float("nan")},
        {**document(), "instance": 7},
        {**document(), "observations": {}},
        {**document(), "observations": [1]},
        {**document(), "observations": document()["observations"] * 65},
        document(t="5"),
        document(target=""),
        document(target="a\u001bb"),
        document(process={"anon_bytes": -1}),
        document(process={"anon_bytes": "1"}),
        document(process={"anon_bytes": 1.5}),
        document(process={"pid": None}),
        document(process={"title": "x\n# HELP evil"}),
        document(cgroup={"limit_bytes": -5}),
        document(processes=[{"pid": n, "title": "x"} for n in range(1001)]),
        {**document(), "at": 10**400},  # whole numbers of JSON that no float can hold
        document(t=10**400),
        document(process={"anon_bytes": 10**400}),
        document(process={"pid": -(10**400)}),
        document(cgroup={"limit_bytes": 10**400}),
    ],
)
def test_an_answer_of_another_form_is_refused(value: Any) -> None:
    with pytest.raises(SidecarUnusable):
        read_readings(json.loads(json.dumps(value)))


def test_only_problems_of_processes_come_through_and_their_text_is_bounded() -> None:
    problems = [
        {"code": "kv_stalled", "target": "x", "text": "no", "pid": None},
        {"code": "process_gone", "target": "x", "text": "\u001b[2J" + "y" * 9999, "pid": 3},
    ]
    (problem,) = read_readings(document(problems=problems)).observations["x"].problems
    assert problem.code == "process_gone"
    assert len(problem.text) <= 400
    assert problem.text.isprintable()


def test_what_is_no_target_any_more_is_not_given_out() -> None:
    sidecar = Sidecar(TurnedClock())
    sidecar.read()
    (line,) = sidecar.readings.document(sidecar.config)["observations"]
    assert (line["target"], line["port"], line["processes"][0]["cache_budget_bytes"]) == (
        "localhost:8000",
        8000,
        3 * GIB,
    )
    assert sidecar.readings.document(Config())["observations"] == []
