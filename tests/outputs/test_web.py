"""pdwatch's own server: every address, what it answers, and that nothing foreign breaks it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agent.config import Auth, Config, Pool, Target
from agent.errors import ConfigError
from agent.model import FailureObservation
from agent.outputs.live import Live
from agent.outputs.web import make_app, start_server
from agent.watch import Watch
from tests.outputs import fleet

Client = TestClient[web.Request, web.Application]
Connect = Callable[[Live], Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def to(live: Live) -> Client:
        client = TestClient(TestServer(make_app(live)))
        await client.start_server()
        clients.append(client)
        return client

    yield to
    for client in clients:
        await client.close()


async def test_the_state_is_given_over_five_minutes_unless_told_otherwise(connect: Connect) -> None:
    client = await connect(fleet.live())
    for query, window in (("", 300), ("?window=1m", 60), ("?window=3d", 259200), ("?window=90", 90)):
        answer = await client.get(f"/api/v1/state{query}")
        assert answer.status == 200
        assert answer.content_type == "application/json"
        state = await answer.json()
        assert (state["type"], state["window_s"]) == ("state", window)


@pytest.mark.parametrize(
    "query", ["window=", "window=2s", "window=4d", "window=soon", "window=nan", "window=-5m", "windw=5m"]
)
async def test_a_window_that_cannot_be_is_refused_with_a_sentence(query: str, connect: Connect) -> None:
    answer = await (await connect(fleet.live())).get(f"/api/v1/state?{query}")
    assert answer.status == 400
    assert "window" in (await answer.json())["error"]


async def test_an_unknown_address_of_the_interface_is_answered_in_json(connect: Connect) -> None:
    client = await connect(fleet.live())
    answer = await client.get("/api/v1/nothing")
    assert (answer.status, await answer.json()) == (404, {"error": "Not Found"})
    answer = await client.post("/api/v1/state")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")


async def test_metrics_come_in_the_form_that_is_asked_for(connect: Connect) -> None:
    client = await connect(fleet.live(deployment="glm-prod"))
    plain = await client.get("/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'pdwatch_pool_tpot_mean_seconds{deployment="glm-prod",pool="decode"}' in await plain.text()
    modern = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert modern.content_type == "application/openmetrics-text"
    assert (await modern.text()).endswith("# EOF\n")


async def test_secrets_are_masked_wherever_the_configuration_is_shown(connect: Connect) -> None:
    pool = Pool(name="p", role="both", targets=(Target("t", "http://h/"),), auth=Auth(bearer_token="hunter2"))
    live = Live(Watch(Config(pools=(pool,))), lambda: fleet.END, lambda: 0.0)
    answer = await (await connect(live)).get("/config")
    text = await answer.text()
    assert answer.content_type == "application/json"
    assert "hunter2" not in text
    assert '"bearer_token": "***"' in text


async def test_healthy_means_that_the_loop_turns_and_ready_that_everybody_was_asked_once(connect: Connect) -> None:
    live = fleet.live(rounds=0)
    client = await connect(live)
    assert (await client.get("/-/healthy")).status == 200
    assert (await client.get("/-/ready")).status == 503
    live.observe(FailureObservation(fleet.BEGIN, "prefill-0", "refused"))
    assert (await client.get("/-/ready")).status == 503
    live.observe(FailureObservation(fleet.BEGIN, "decode-0", "refused"))
    assert (await client.get("/-/ready")).status == 200


async def test_many_viewers_within_a_second_cost_one_state(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    compute = Watch.state

    def counting(self: Watch, *args: Any, **more: Any) -> object:
        nonlocal made
        made += 1
        return compute(self, *args, **more)

    monkeypatch.setattr(Watch, "state", counting)
    now = 100.0
    live = Live(Watch(fleet.config()), lambda: fleet.END, lambda: now)
    client = await connect(live)
    for address in ("/", "/metrics", "/api/v1/state", "/", "/metrics", "/api/v1/state"):
        assert (await client.get(address)).status == 200
    assert made == 1
    now += 1.5
    await client.get("/metrics")
    assert made == 2


async def test_windows_that_nobody_asks_for_any_more_are_not_kept() -> None:
    now = 0.0
    live = Live(Watch(fleet.config()), lambda: fleet.END, lambda: now)
    for window in range(60, 500):
        now += 2.0
        live.state(float(window))
    assert len(live._made) <= 16


async def test_a_defect_behind_one_request_is_counted_and_the_others_go_on(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    live = fleet.live()
    client = await connect(live)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "state", broken)
        answer = await client.get("/api/v1/state")
        assert (answer.status, await answer.json()) == (500, {"error": "a defect of pdwatch; see its log"})
        assert (await client.get("/metrics")).status == 500
        assert (await client.get("/-/healthy")).status == 200
    assert live.defects.counts == {"web": 2}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    state = await (await client.get("/api/v1/state")).json()
    assert [p["text"] for p in state["problems"] if p["code"] == "agent_error"] == [
        "pdwatch itself failed in web 2 times, last with RuntimeError: a bug; see its log"
    ]


async def test_an_address_that_is_taken_is_said_in_one_line() -> None:
    first = fleet.live()
    runner = await start_server(first, "127.0.0.1:0")
    port = runner.addresses[0][1]
    try:
        assert first.listening == f"http://127.0.0.1:{port}/"
        with pytest.raises(ConfigError, match=f"listen: 127.0.0.1:{port} is taken by another process"):
            await start_server(fleet.live(), f"127.0.0.1:{port}")
    finally:
        await runner.cleanup()


async def test_an_address_that_is_none_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="listen: 'nonsense' is not host:port"):
        await start_server(fleet.live(rounds=0), "nonsense")


async def test_an_address_that_is_not_ours_is_said_in_one_line() -> None:
    with pytest.raises(ConfigError, match="cannot be listened on"):
        await start_server(fleet.live(), "192.0.2.1:9838")
