"""The demo whole: real pages over HTTP, its own page with its forms, and pdwatch beside it, in time turned by hand."""

from __future__ import annotations

import asyncio
import io
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from agent.cli import main
from agent.commands import demo
from agent.commands.demo import run_demo
from agent.config import Config
from agent.demo import INCIDENTS
from agent.demo.overview import overview_page
from agent.demo.web import bound, overview_app, serve, target_app
from agent.demo.world import PAST_SECONDS, DemoWorld, target_names
from agent.errors import ConfigError
from agent.runtime import Stop
from agent.sources.local_processes import local_targets
from agent.watch import Watch
from tests.demo.watched import START, problems
from tests.sources.loopback import TurnedClock

MINUTE = 60.0


def world_at(clock: TurnedClock, ports: dict[str, int] | None = None, speed: float = 1.0) -> DemoWorld:
    """A demo without processes, whose past is not told yet."""
    taken = ports or dict.fromkeys(target_names(), 8000)
    return DemoWorld(clock, taken, speed=speed, with_processes=False)


def begun(clock: TurnedClock) -> DemoWorld:
    """One that has come to now."""
    world = world_at(clock)
    for _ in world.past():
        pass
    return world


@asynccontextmanager
async def served(world: DemoWorld) -> AsyncIterator[str]:
    """The address of the fleet's own page."""
    listening = socket.create_server(("127.0.0.1", 0))
    end = await serve(overview_app(world), listening)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        await end()


# -- the past and the present ---------------------------------------------------------------------------------------


def test_the_past_is_twenty_minutes_that_end_now_and_every_server_is_in_it() -> None:
    clock = TurnedClock(wall=START)
    world = world_at(clock)
    told = list(world.past())
    moments = [moment for moment, _ in told]
    assert moments == sorted(set(moments))
    assert moments[0] <= START - PAST_SECONDS + 60
    assert moments[-1] == world.fleet.now == START
    assert all([seen.target for seen in page] == list(target_names()) for _, page in told)


def test_a_watch_that_was_told_the_past_knows_both_promises_at_once() -> None:
    world = world_at(TurnedClock(wall=START))
    watch = Watch(world.config)
    for moment, seen in world.past():
        for observation in seen:
            watch.observe(observation)
        watch.evaluate(moment)
    state = watch.state(START)
    assert {verdict.verdict for verdict in state.verdicts} == {"met"}
    assert problems(state) == set()


def test_what_happens_while_the_past_is_told_is_told_as_well() -> None:
    clock = TurnedClock(wall=START)
    world = world_at(clock)
    for moment, _ in world.past():
        if moment < START:
            clock.turn(1.0)
    assert world.fleet.now == clock.wall() > START + 15


def test_mtp_collapse_is_named_within_minutes() -> None:
    clock = TurnedClock(wall=START)
    world = world_at(clock)
    watch = Watch(world.config)
    for moment, seen in world.past():
        for observation in seen:
            watch.observe(observation)
        watch.evaluate(moment)
    world.incidents.start("mtp-collapse")
    for _ in range(12):
        clock.turn(30.0)
        for moment, seen in world.past():
            for observation in seen:
                watch.observe(observation)
            watch.evaluate(moment)
    state = watch.state(clock.wall())
    assert "speculation_collapsed" in problems(state)
    (tpot,) = [verdict for verdict in state.verdicts if verdict.objective == "tpot"]
    assert (tpot.verdict, tpot.status) == ("breached", "firing")
    assert tpot.cause is not None
    assert tpot.cause["code"] == "acceptance_drop"


def test_the_configuration_watches_every_server_on_this_host_in_a_short_time_scale() -> None:
    ports = {name: 9000 + number for number, name in enumerate(target_names())}
    config = world_at(TurnedClock(wall=START), ports).config
    assert {name: hint.port for name, hint in local_targets(config).items()} == ports
    assert [(pool.name, pool.gpus_per_target, len(pool.targets)) for pool in config.pools] == [
        ("prefill", 4, 4),
        ("decode", 8, 1),
    ]
    assert config.memory.time_scale == pytest.approx(1 / 60)


@pytest.mark.parametrize(("speed", "interval"), [(0.5, 5.0), (1.0, 5.0), (20.0, 5.0), (60.0, 15.0)])
def test_a_faster_demo_is_not_scraped_more_than_four_times_a_second(speed: float, interval: float) -> None:
    scrape = world_at(TurnedClock(wall=START), speed=speed).config.scrape
    assert scrape.interval_seconds == interval


# -- over HTTP ------------------------------------------------------------------------------------------------------


async def test_a_server_shows_its_page_of_now_and_none_while_it_is_restarted() -> None:
    clock = TurnedClock(wall=START)
    world = begun(clock)
    listening = socket.create_server(("127.0.0.1", 0))
    end = await serve(target_app(world, "decode-0"), listening)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/metrics"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=1.0.0; charset=utf-8"
            first = await answer.text()
        clock.turn(10.0)
        async with session.get(url) as answer:
            assert await answer.text() != first
        world.fleet.stop_server(world.fleet.now, world.fleet.server("decode-0"))
        async with session.get(url) as answer:
            assert answer.status == 503
    await end()


async def test_an_incident_is_started_and_stopped_by_a_form_of_the_page() -> None:
    world = begun(TurnedClock(wall=START))
    async with served(world) as url, aiohttp.ClientSession(headers={"Origin": url}) as session:
        async with session.get(url) as answer:
            forms = re.findall(
                r"<form method='post' action='(.*?)'>.*?name='incident' value='(.*?)'>"
                r"<button name='action' value='start'",
                await answer.text(),
            )
        assert forms == [("/incidents", name) for name in INCIDENTS]
        async with session.post(f"{url}/incidents", data={"incident": "kv-slow", "action": "start"}) as answer:
            text = await answer.text()
        assert (answer.history[0].status, answer.history[0].headers["Location"]) == (303, "/#kv-slow")
        assert "<strong>on</strong> for 0 s" in text
        assert "aria-label='Stop kv-slow'" in text
        assert set(world.incidents.running) == {"kv-slow"}
        async with session.post(f"{url}/incidents", data={"incident": "kv-slow", "action": "stop"}):
            assert not world.incidents.running


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "{url}", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "{url}", "Sec-Fetch-Site": "same-site"},
        {"Origin": "{url}.elsewhere.example"},
    ],
)
async def test_a_form_from_elsewhere_starts_nothing(headers: dict[str, str]) -> None:
    world = begun(TurnedClock(wall=START))
    async with served(world) as url, aiohttp.ClientSession() as session:
        sent = {name: value.format(url=url) for name, value in headers.items()}
        data = {"incident": "kv-slow", "action": "start"}
        async with session.post(f"{url}/incidents", data=data, headers=sent) as answer:
            assert answer.status == 403
    assert not world.incidents.running


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"incident": "kv-slo", "action": "start"}, "did you mean 'kv-slow'"),
        ({"incident": "kv-slow", "action": "begin"}, "start or stop, not 'begin'"),
        ({}, "start or stop, not ''"),
    ],
)
async def test_a_form_that_names_nothing_known_is_answered_with_the_reason(data: dict[str, str], said: str) -> None:
    world = begun(TurnedClock(wall=START))
    async with served(world) as url, aiohttp.ClientSession(headers={"Origin": url}) as session:
        async with session.post(f"{url}/incidents", data=data) as answer:
            assert answer.status == 400
            assert said in await answer.text()
        async with session.get(f"{url}/incidents") as answer:
            assert answer.status == 405


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 65536), ("no host", 0), ("a..b", 0), ("x" * 300, 0)])
def test_an_address_that_cannot_be_is_a_sentence(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match="name another with --fleet-listen"):
        bound(host, port)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"x", 400),
        ("multipart/form-data; boundary=b", b"x", 400),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="action"; filename="f"\r\n\r\nstart\r\n--b--\r\n',
            400,
        ),
        ("application/x-www-form-urlencoded; charset=utf-99", b"action=start", 400),
        ("application/x-www-form-urlencoded", b"action=start&incident=\xff", 400),
        ("application/x-www-form-urlencoded", b"action=start&incident=" + b"x" * 100_000, 413),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused_and_no_defect(kind: str, body: bytes, status: int) -> None:
    world = begun(TurnedClock(wall=START))
    async with served(world) as url, aiohttp.ClientSession(headers={"Origin": url}) as session:
        async with session.post(f"{url}/incidents", data=body, headers={"Content-Type": kind}) as answer:
            assert answer.status == status
        squeezed = {"Content-Encoding": "gzip", "Content-Type": "application/x-www-form-urlencoded"}
        async with session.post(f"{url}/incidents", data=b"no gzip", headers=squeezed) as answer:
            assert answer.status == 400
    assert not world.incidents.running


def test_the_page_asks_for_nothing_from_outside_and_tells_the_truth() -> None:
    world = begun(TurnedClock(wall=START))
    text = overview_page(world, pdwatch="http://127.0.0.1:9838/")
    assert set(re.findall(r"(?:src|href|action)='(.*?)'", text)) == {
        "data:,",
        "http://127.0.0.1:9838/",
        "/",
        "/incidents",
    }
    assert "<script" not in text
    ttft = world.truth().user_ttft.mean
    assert ttft is not None
    assert f"TTFT of a user</th><td class='n'>{ttft:.2f} s" in text


# -- pdwatch beside it ----------------------------------------------------------------------------------------------


async def test_pdwatch_watches_the_demo_over_http_and_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.demo.world.ProcessTrees.follow", lambda *_: None)  # has tests of its own
    clock, stop, out = TurnedClock(wall=START), Stop(), io.StringIO()
    work = asyncio.create_task(run_demo(stop, clock, incident="rank-slow", listen="127.0.0.1:0", out=out))
    while "demo fleet" not in out.getvalue():
        await asyncio.sleep(0)
        assert not work.done()
    pdwatch, page = re.findall(r"http://127\.0\.0\.1:\d+/", out.getvalue())
    assert out.getvalue().startswith(f"pdwatch is at {pdwatch}\n")
    assert out.getvalue().count("\n") == 2
    assert "To watch yours: pdwatch run --prefill URL" in out.getvalue()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{pdwatch}api/v1/state") as answer:
            state = await answer.json()
        async with session.get(page) as answer:
            text = await answer.text()
    assert state["system"]["ttft"]["count"] > 500
    assert {verdict["verdict"] for verdict in state["verdicts"]} == {"met"}
    assert f"<a href='{pdwatch}'>" in text
    assert "<tr id='rank-slow' class=on>" in text
    stop.want(0)
    async with asyncio.timeout(30):
        await work


async def test_an_address_that_is_taken_ends_the_start_with_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port} for the fleet: is taken .*--fleet-listen"):
            await run_demo(Stop(), TurnedClock(wall=START), fleet_listen=f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--incident", "mtp-colapse"], "did you mean 'mtp-collapse'"),
        (["--fleet-listen", "nonsense"], "--fleet-listen: 'nonsense' is not host:port"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


@pytest.mark.parametrize("speed", ["0", "-1", "61", "nan", "fast"])
def test_a_speed_out_of_reach_is_a_usage_error(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["demo", "--speed", speed])
    assert end.value.code == 2
    assert "no number above 0 and up to 60" in capsys.readouterr().err


def test_run_without_a_deployment_starts_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def start(listen: str | None = None) -> int:
        asked.append(listen)
        return 0

    monkeypatch.setattr(demo, "start", start)
    assert main(["run", "--listen", "127.0.0.1:0"]) == 0
    assert asked == ["127.0.0.1:0"]


def test_run_with_a_deployment_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Config] = []

    def run(config: Config, *_: object) -> int:
        watched.append(config)
        return 0

    monkeypatch.setattr("agent.runtime.run", run)
    monkeypatch.setattr(demo, "start", None)
    assert main(["run", "--decode", "http://127.0.0.1:1"]) == 0
    assert [target.url for target in watched[0].pools[0].targets] == ["http://127.0.0.1:1/metrics"]
