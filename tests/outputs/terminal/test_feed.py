"""The feed: what a viewer sees while the server goes and comes back, and what it makes of answers and addresses."""

import asyncio
import json
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.errors import ConfigError, ViewerError
from agent.outputs.terminal.client import fetch_state, parsed, shown, state_url
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.feed import EVERY_SECONDS, Feed
from tests.outputs.terminal.documents import quiet
from tests.sources.loopback import TurnedClock

URL = "http://127.0.0.1:9838/api/v1/state"


async def test_a_server_that_goes_is_said_with_the_age_of_what_is_shown_and_asked_until_it_is_back() -> None:
    answers: list[dict[str, object] | str] = [{"at": 1.0}, {"at": 2.0}, f"{URL} answered 503", "gone", {"at": 3.0}]
    changes = 0

    async def fetch() -> Part:
        answer = answers.pop(0)
        if isinstance(answer, str):
            raise ViewerError(answer)
        return Part(answer)

    def changed() -> None:
        nonlocal changes
        changes += 1

    clock = TurnedClock()
    feed = Feed(fetch, clock, changed)
    await feed.first()
    task = asyncio.create_task(feed.run())
    seen = []
    for _ in range(4):
        await clock.sleeping(1)
        clock.turn(EVERY_SECONDS)
        await clock.sleeping(1)
        now = feed.seen()
        seen.append((now.document.number("at"), now.waited, now.trouble))
    task.cancel()
    assert seen == [(2.0, 0.0, ""), (2.0, 2.0, "answered 503"), (2.0, 4.0, "gone"), (3.0, 0.0, "")]
    assert changes == 4


async def test_a_wrong_address_is_said_at_once() -> None:
    async def fetch() -> Part:
        raise ViewerError("nobody there")

    with pytest.raises(ViewerError, match="nobody there"):
        await Feed(fetch, TurnedClock(), lambda: None).first()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:9838", URL),
        ("http://127.0.0.1:9838/", URL),
        (URL, URL),
        ("https://watch.example/pd/?x#y", "https://watch.example/pd/api/v1/state"),
        ("[::1]:9838", "http://[::1]:9838/api/v1/state"),
    ],
)
def test_an_address_may_be_given_in_several_ways(address: str, url: str) -> None:
    assert state_url(address) == url


@pytest.mark.parametrize("address", ["", "ftp://x", "http://", "http://x:99999", "a b", "http://x:0", "http://[x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        state_url(address)


def test_a_password_in_the_address_is_never_shown() -> None:
    assert shown("http://me:secret@h:1/api/v1/state") == "http://h:1/api/v1/state"
    with pytest.raises(ConfigError) as error:
        state_url("ftp://me:secret@h")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"type": "page"}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_state_is_said(body: bytes) -> None:
    with pytest.raises(ViewerError, match="is not a state of pdwatch"):
        parsed(body, URL)


Answer = Callable[[web.Request], web.StreamResponse]


async def fetched(answer: Answer) -> Part:
    async def handler(request: web.Request) -> web.StreamResponse:
        return answer(request)

    app = web.Application()
    app.router.add_get("/api/v1/state", handler)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        return await fetch_state(session, str(server.make_url("/api/v1/state")))


async def test_a_state_comes_over_http() -> None:
    document = await fetched(lambda _: web.Response(text=json.dumps(quiet())))
    assert document.number("window_s") == 300.0


async def test_another_answer_is_said_in_one_line() -> None:
    with pytest.raises(ViewerError, match="answered 503") as error:
        await fetched(lambda _: web.Response(status=503, reason="Busy"))
    assert str(error.value).endswith("/api/v1/state answered 503 Busy")


async def test_nobody_at_the_address_is_said_in_one_line() -> None:
    async with TestServer(web.Application()) as server:
        url = str(server.make_url("/api/v1/state"))
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ViewerError, match="connection refused; is pdwatch running there"):
            await fetch_state(session, url)


async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.outputs.terminal.client.MOST_BYTES", 1 << 20)
    with pytest.raises(ViewerError, match="more than 1 MiB"):
        await fetched(lambda _: web.Response(body=b"x" * (3 << 20)))
