"""`/api/v1/history`: what it gives, what it refuses, and the duty that fills it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agent.duties import HISTORY_EVERY_SECONDS, remember
from agent.outputs.history import History
from agent.outputs.live import Live
from agent.outputs.web import make_app
from tests.outputs import fleet
from tests.outputs.history.states import process, state, with_memory
from tests.sources.loopback import TurnedClock

Client = TestClient[web.Request, web.Application]


@pytest.fixture
def live() -> Live:
    """Three minutes of history before the fleet's now."""
    live = fleet.live()
    live.history = History(None)
    for n in range(3):
        noted = state(fleet.END - 120 + 60 * n, 2.0 + n, 8)
        live.history.note(with_memory(noted, process("decode-0", "python a/b", 5)))
    return live


@pytest.fixture
async def client(live: Live) -> AsyncIterator[Client]:
    client = TestClient(TestServer(make_app(live)))
    await client.start_server()
    yield client
    await client.close()


async def test_a_series_comes_with_its_window_and_its_points(client: Client) -> None:
    answer = await client.get("/api/v1/history?indicator=ttft&scope=system")
    assert answer.status == 200
    assert await answer.json() == {
        "indicator": "ttft",
        "scope": "system",
        "window_s": 300.0,
        "points": [
            {"t": fleet.END - 120 + 60 * n, "value": 2.0 + n, "low": 2.0 + n, "high": 2.0 + n, "count": 8}
            for n in range(3)
        ],
    }


async def test_a_stretch_and_a_number_of_points_can_be_asked_for(client: Client) -> None:
    asked = f"indicator=ttft&scope=system&from={fleet.END - 70}&to={fleet.END - 10}&points=2"
    points = (await (await client.get(f"/api/v1/history?{asked}")).json())["points"]
    assert [point["t"] for point in points] == [fleet.END - 60]


async def test_without_a_scope_all_scopes_of_the_indicator_come(client: Client) -> None:
    found = await (await client.get("/api/v1/history?indicator=memory")).json()
    assert [series["scope"] for series in found["series"]] == ["decode-0/python a/b"]
    assert found["series_left_out"] == 0
    one = await (
        await client.get("/api/v1/history", params={"indicator": "memory", "scope": "decode-0/python a/b"})
    ).json()
    assert one["points"] == found["series"][0]["points"]


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 400, "indicator is missing; known are acceptance_length, "),
        ("indicator=ttfx", 404, "no history of 'ttfx'; known are acceptance_length, "),
        ("indicator=tpot&scope=prefill", 404, "no history of tpot for the scope 'prefill'; known are decode"),
        ("indicator=ttft&scoop=system", 400, "unknown parameter 'scoop'; known are indicator, scope"),
        ("indicator=ttft&from=yesterday", 400, "from: 'yesterday' is not a time in unix seconds"),
        ("indicator=ttft&to=nan", 400, "to: 'nan' is not a time in unix seconds"),
        ("indicator=ttft&from=5&to=5", 400, "from must be before to"),
        ("indicator=ttft&points=1", 400, "points: '1' is not between 2 and 1500"),
        ("indicator=ttft&points=1e9", 400, "points: '1e9' is not between"),
        ("indicator=ttft&points=many", 400, "points: 'many' is not a whole number"),
    ],
)
async def test_what_cannot_be_answered_is_said_with_what_exists(
    query: str, status: int, said: str, client: Client
) -> None:
    answer = await client.get(f"/api/v1/history?{query}")
    assert answer.status == status
    assert (await answer.json())["error"].startswith(said)


async def test_before_the_first_note_nothing_is_known(live: Live, client: Client) -> None:
    live.history = History(None)
    answer = await client.get("/api/v1/history?indicator=ttft")
    assert (answer.status, await answer.json()) == (404, {"error": "no history of 'ttft'; nothing is known yet"})
    live.history = None
    answer = await client.get("/api/v1/history?indicator=ttft")
    assert (answer.status, await answer.json()) == (404, {"error": "no history is kept"})


async def test_the_duty_notes_the_state_and_counts_what_went_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    live, clock = fleet.live(), TurnedClock()
    live.history = History(tmp_path / "file" / "history.sqlite")
    duty = asyncio.create_task(remember(live, clock))
    for _ in range(2):
        await clock.sleeping(1)
        clock.turn(HISTORY_EVERY_SECONDS)
    await clock.sleeping(1)
    duty.cancel()
    assert live.defects.counts == {"history": 1}
    assert "ttft/system" in live.history.names()
    assert {"tpot/decode", "objective/tpot/decode", "memory/decode-0/VLLM::EngineCore_DP0"} <= set(live.history.names())
