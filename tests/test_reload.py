"""The configuration read again while everything runs: what changes, what stays, what a broken file leaves alone."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agent.config import Config, Links, Memory, Objective, Pool, Router, Scrape, Target, Traces, load_config
from agent.errors import ConfigError
from agent.outputs.delivery.run import Deliveries
from agent.outputs.live import Live
from agent.outputs.own import ReloadFigures
from agent.outputs.reload_route import Reload, ReloadAnswer, add_reload_route
from agent.reload import Reloader, differences, in_force
from agent.verdicts.incidents import Incidents
from agent.watch import Watch
from tests.outputs import fleet
from tests.outputs.delivery.pagers import alert, pager
from tests.outputs.delivery.test_delivery import FastClock, config_of, until
from tests.verdicts.alarms import STEP, T, deployment, problem, verdict

SMALL = "pools: {{decode: {{role: decode, targets: {{decode-0: 'http://h:8000'{more}}}}}}}\n"


# -- reading again ---------------------------------------------------------------------------------------------


def reloader(file: Path, applied: list[Config]) -> Reloader:
    now = iter(range(100, 200))
    return Reloader(load_config(file, {}), lambda: load_config(file, {}), applied.append, lambda: float(next(now)))


async def test_a_changed_file_is_applied_and_what_changed_is_named(tmp_path: Path) -> None:
    file, applied = tmp_path / "pdwatch.yaml", list[Config]()
    file.write_text(SMALL.format(more=""), encoding="utf-8")
    work = reloader(file, applied)
    assert await work.reload() == ReloadAnswer()
    more = "scrape: {interval: 10s}\nlisten: 127.0.0.1:1\nstate_dir: s\nlinks: {runbooks: 'http://r'}\n"
    file.write_text(SMALL.format(more=", decode-1: 'http://h:8001'") + more, encoding="utf-8")
    answer = await work.reload()
    assert set(answer.changed) == {"pools.decode.targets", "scrape.interval", "scrape.timeout", "links.runbooks"} - (
        {"scrape.timeout"}  # 4 s in both
    )
    assert set(answer.needs_restart) == {"listen", "state_dir"}
    assert [target.name for target in applied[-1].pools[0].targets] == ["decode-0", "decode-1"]
    assert applied[-1].listen == applied[0].listen
    assert (await work.reload()).needs_restart == answer.needs_restart, "it is said until the restart"


async def test_a_broken_file_changes_nothing_and_is_shown_until_a_good_one_comes(tmp_path: Path) -> None:
    file, applied = tmp_path / "pdwatch.yaml", list[Config]()
    file.write_text(SMALL.format(more=""), encoding="utf-8")
    work = reloader(file, applied)
    assert work.figures() == ReloadFigures(True, 100.0)
    for broken in ("pools: {decode: {role: decod}}", "pools: [", "", "objectives: 7"):
        file.write_text(broken, encoding="utf-8")
        answer = await work.reload()
        assert answer.error.startswith(str(file))
        assert "\n" not in answer.error
    file.unlink()
    assert "cannot be read" in (await work.reload()).error
    (said,) = work.problems(0.0)
    assert (said.code, said.since, said.severity) == ("config_reload_failed", 101.0, "warning")
    assert "the old one stays in force" in said.text
    assert work.figures() == ReloadFigures(False, 100.0)
    assert applied == []
    file.write_text(SMALL.format(more=""), encoding="utf-8")
    assert await work.reload() == ReloadAnswer()
    assert work.problems(0.0) == []
    assert work.figures().successful


async def test_a_storm_of_reloads_reads_the_file_once_more_after_the_last_of_them() -> None:
    config, go_on, reading, loaded = Config(), threading.Event(), asyncio.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def load() -> Config:
        loaded.append(written)
        loop.call_soon_threadsafe(reading.set)
        assert go_on.wait(10)
        return replace(config, deployment=loaded[-1])

    applied = list[Config]()
    work = Reloader(config, load, applied.append, lambda: 1.0)
    written = "a"
    first = asyncio.ensure_future(work.reload())
    await reading.wait()
    written = "b"
    storm = [asyncio.ensure_future(work.reload()) for _ in range(200)]
    await asyncio.sleep(0)
    storm[0].cancel()  # one of them does not wait for it: the others do
    go_on.set()
    assert (await first).changed == ("deployment",)
    assert {answer.changed for answer in await asyncio.gather(*storm[1:])} == {("deployment",)}
    assert loaded == ["a", "b"]
    assert applied[-1].deployment == "b"


async def test_what_cannot_be_applied_counts_as_broken(tmp_path: Path) -> None:
    def refuse(_: Config) -> None:
        raise ConfigError("traces.services.x: leads nowhere")

    config = fleet.config()
    work = Reloader(config, lambda: replace(config, dispatch="concurrent"), refuse, lambda: 1.0)
    assert (await work.reload()).error == "traces.services.x: leads nowhere"
    assert (await work.reload()).error, "nothing of it is taken for applied"


def test_what_needs_a_restart_keeps_its_value_whatever_lies_beside_it() -> None:
    old = replace(fleet.config(), router=Router(kind="dynamo", targets=(Target("r", "http://r"),)))
    new = replace(
        old,
        prefix="x_",
        mode="sidecar",
        memory=Memory(page_within_seconds=60, time_scale=0.5),
        traces=Traces(services=(("a", "decode"),), spans_per_second=1),
        router=Router(kind="envoy", targets=(Target("s", "http://s"),), prefix="y"),
        dispatch="concurrent",
        file="other.yaml",
    )
    now = in_force(old, new)
    assert (now.prefix, now.mode, now.memory.time_scale, now.traces.spans_per_second) == ("", "central", 1.0, 5000.0)
    assert (now.memory.page_within_seconds, now.traces.services, now.dispatch) == (60, (("a", "decode"),), "concurrent")
    assert now.router == Router(kind="dynamo", targets=(Target("s", "http://s"),))
    assert set(differences(now, new)) == {
        "prefix", "mode", "memory.time_scale", "traces.spans_per_second", "router.kind", "router.prefix",
    }  # fmt: skip
    assert in_force(old, replace(old, router=None)).router is None


def test_pools_are_named_that_came_went_or_changed() -> None:
    old = fleet.config()
    prefill, decode = old.pools
    new = replace(old, pools=(replace(decode, gpus_per_target=9), replace(prefill, name="other")))
    assert list(differences(old, new)) == ["pools.prefill", "pools.decode.gpus_per_target", "pools.other"]


# -- over HTTP -------------------------------------------------------------------------------------------------

Client = TestClient[web.Request, web.Application]
Connect = Callable[[Reload | None], Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def to(reload: Reload | None) -> Client:
        app = web.Application()
        add_reload_route(app, lambda: reload)
        client = TestClient(TestServer(app))
        await client.start_server()
        clients.append(client)
        return client

    yield to
    for client in clients:
        await client.close()


async def _well() -> ReloadAnswer:
    return ReloadAnswer(changed=("links.runbooks",), needs_restart=("listen",))


async def _badly() -> ReloadAnswer:
    return ReloadAnswer(error="pdwatch.yaml:3: x: unknown key")


async def test_a_reload_answers_with_what_came_of_it(connect: Connect) -> None:
    answer = await (await connect(_well)).post("/-/reload")
    assert (answer.status, await answer.json()) == (200, {"changed": ["links.runbooks"], "needs_restart": ["listen"]})
    answer = await (await connect(_badly)).post("/-/reload")
    assert (answer.status, await answer.json()) == (400, {"error": "pdwatch.yaml:3: x: unknown key"})
    answer = await (await connect(None)).post("/-/reload")
    assert answer.status == 400
    assert "started without one" in (await answer.json())["error"]


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "DELETE"])
async def test_only_a_post_reloads(method: str, connect: Connect) -> None:
    answer = await (await connect(_well)).request(method, "/-/reload")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://pdwatch:9838"}, 200),
        ({"Origin": "HTTP://PDWATCH:9838", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://pdwatch"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://pdwatch:9838", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_a_page_of_another_site_cannot_reload(headers: dict[str, str], status: int, connect: Connect) -> None:
    answer = await (await connect(_well)).post("/-/reload", headers={"Host": "pdwatch:9838", **headers})
    assert answer.status == status


# -- what goes on ----------------------------------------------------------------------------------------------


def test_windows_of_targets_that_stay_go_on_and_new_objectives_are_judged() -> None:
    live = fleet.live()
    before = live.state().pools["decode"]
    more = Objective(indicator="ttft", scope="decode", target=1.0, name="first", min_requests=1)
    config = replace(fleet.config(), objectives=(*fleet.config().objectives, more), scrape=Scrape(10.0))
    live.retarget(config)
    assert live.config is config
    assert live.state().pools["decode"] == before
    live.evaluate()
    assert {verdict.objective for verdict in live.plain_state().verdicts} == {"ttft", "tpot", "first"}


def test_a_pool_without_targets_is_shown_with_nothing_known() -> None:
    live = fleet.live()
    prefill, decode = fleet.config().pools
    object.__setattr__(decode, "targets", ())  # as discovery leaves a pool whose list is empty
    live.retarget(Config(pools=(prefill, decode)))
    live.evaluate()
    shown = live.state().pools["decode"]
    assert shown.targets == {}
    assert shown.latency["tpot"].mean is None
    assert "decode" in live.text()
    assert live.samples()
    live.retarget(fleet.config())
    assert list(live.state().pools["decode"].targets) == ["decode-0"]


def test_an_alert_in_flight_is_neither_resolved_nor_doubled() -> None:
    config = deployment()
    incidents = Incidents(config)
    firing = verdict()
    gone = problem("unreachable", target="prefill-1", pool="prefill")
    now = T
    for _ in range(60):
        incidents.evaluate([firing], [gone], now)
        now += STEP
    told = {told.identity: told.starts_at for told in incidents.alerts if told.ends_at is None}
    assert len(told) == 2
    for links in (Links(), config.links, Links(dashboards="https://g")):
        incidents.retarget(replace(config, links=links))
        incidents.evaluate([firing], [gone], now)
        now += STEP
        assert {one.identity: one.starts_at for one in incidents.alerts} == told
        assert all(one.ends_at is None for one in incidents.alerts)


def test_alerts_about_what_is_gone_end_and_no_others() -> None:
    config = deployment()
    incidents = Incidents(config)
    problems = [problem("unreachable", target="prefill-1", pool="prefill")]
    now = T
    for _ in range(60):
        incidents.evaluate([verdict()], problems, now)
        now += STEP
    pools = tuple(replace(pool, targets=pool.targets[:1]) for pool in config.pools)
    incidents.retarget(replace(config, pools=pools))
    incidents.evaluate([verdict()], [], now)
    assert {one.labels.get("target") or one.labels.get("objective"): one.ends_at for one in incidents.alerts} == {
        "tpot": None,
        "prefill-1": now,
    }
    incidents.retarget(replace(config, pools=pools, objectives=()))
    incidents.evaluate([], [], now + STEP)
    assert [one.ends_at for one in incidents.alerts if "objective" in one.labels] == [now + STEP]


def test_a_target_that_joins_later_has_its_pools_alerts() -> None:
    pool = Pool(name="decode", role="decode", targets=(Target("decode-0", "http://h"),))
    watch = Watch(Config(deployment="d", pools=(pool,)))
    joined = replace(pool, targets=(*pool.targets, Target("decode-1", "http://i")))
    watch.retarget(Config(deployment="d", pools=(joined,)))
    found = [problem("process_gone", target="decode-1", pool=None)]
    for step in range(60):
        watch.incidents.evaluate([], found, T + STEP * step)
    assert [one.labels["scope"] for one in watch.incidents.alerts] == ["decode"]


async def test_a_reload_tells_no_receiver_anything_twice() -> None:
    defects: list[object] = []
    async with pager() as hook, pager() as manager:
        standing = [alert()]
        config = config_of(None, hook=hook.url)
        work = Deliveries(config, FastClock(), lambda: standing, lambda *defect: defects.append(defect), lambda _: None)
        task = asyncio.create_task(work.run())
        await until(lambda: len(hook.bodies) == 1)
        for number in range(3):
            work.reconfigure(replace(config, links=Links(dashboards=f"http://g{number}")))
            await asyncio.sleep(0.02)
        work.reconfigure(config_of(None, hook=hook.url, manager=manager.url))
        await until(lambda: len(manager.bodies) > 0)
        assert len(hook.posts) == 1
        standing[0] = alert(ended=standing[0].starts_at + 60)
        await until(lambda: len(hook.bodies) == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert defects == []


async def test_a_post_that_is_on_its_way_is_answered_before_the_senders_change() -> None:
    let_go = asyncio.Event()
    posts: list[str] = []

    async def slow(request: web.Request) -> web.Response:
        posts.append(await request.text())
        await let_go.wait()
        return web.Response(status=202)

    app = web.Application()
    app.router.add_post("/", slow)
    async with TestServer(app) as server:
        config = config_of(None, hook=str(server.make_url("/")))
        work = Deliveries(config, FastClock(), lambda: [alert()], lambda *_: None, lambda _: None)
        task = asyncio.create_task(work.run())
        await until(lambda: len(posts) == 1)
        work.reconfigure(replace(config, links=Links(dashboards="http://g")))
        await asyncio.sleep(0.02)
        let_go.set()
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(posts) == 1


def test_what_parts_have_to_say_is_in_the_state_and_can_call_somebody() -> None:
    live = fleet.live(deployment="d")
    found = problem("pool_empty", pool="decode", severity="critical", text="pool decode has no target")
    live.more_problems.append(lambda _: [found])
    for _ in range(3):
        live.evaluate()
    assert found in live.plain_state().problems
    assert isinstance(live, Live)
