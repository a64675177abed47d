"""The page over HTTP: what a browser gets, what it may load, and that a foreign page changes nothing of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agent.model import FailureObservation, PageObservation, ProcessesObservation, ProcessSample
from agent.outputs.live import Live
from agent.outputs.page import page, routes
from agent.outputs.page.view import View
from agent.outputs.web import make_app
from tests.outputs import fleet
from tests.outputs.page.seen import Seen, sound

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


async def seen(client: Client) -> Seen:
    answer = await client.get("/")
    assert (answer.status, answer.content_type, answer.charset) == (200, "text/html", "utf-8")
    return sound(await answer.text())


async def test_the_page_shows_the_headline_numbers_with_unit_and_window(connect: Connect) -> None:
    text = (await seen(await connect(fleet.live(deployment="glm-prod")))).text
    for expected in ("pdwatch glm-prod", "over the last 5 min", "20 ms", "tokens per step", "kv expired", "decode-0"):
        assert expected in text


async def test_many_who_look_at_once_cost_one_page(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[View] = []

    def counted(view: View) -> str:
        made.append(view)
        return page.page_html(view)

    monkeypatch.setattr(routes, "page_html", counted)
    now = [100.0]
    live = fleet.live()
    live._steady = lambda: now[0]
    client = await connect(live)
    texts = {(await seen(client)).text for _ in range(3)}
    await asyncio.gather(*(seen(client) for _ in range(20)))
    assert (len(texts), len(made)) == (1, 1)
    now[0] += 1.5
    await seen(client)
    assert len(made) == 2


async def test_the_page_stands_before_anything_is_known(connect: Connect) -> None:
    text = (await seen(await connect(fleet.live(rounds=0)))).text
    assert "no data yet" in text
    assert "–" in text


async def test_nothing_foreign_becomes_markup(connect: Connect) -> None:
    evil = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"' \udc80"
    live = fleet.live()
    live.observe(ProcessesObservation(fleet.END, "decode-0", (ProcessSample(1, evil),)))
    live.observe(FailureObservation(fleet.END, "decode-0", evil, evil))
    live.observe(PageObservation(fleet.END, "prefill-0", f"<html>{evil}</html>"))
    live.watch.config = replace(live.watch.config, deployment=evil)
    live.config = live.watch.config
    found = await seen(await connect(live))
    assert "alert(1)" in found.text
    assert "img" not in found.tags


async def test_a_browser_may_load_our_own_files_and_nothing_else(connect: Connect) -> None:
    answer = await (await connect(fleet.live())).get("/")
    policy = dict(each.strip().split(" ", 1) for each in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


async def test_the_files_beside_the_page_are_kept_for_good_under_an_address_that_changes_with_them(
    connect: Connect,
) -> None:
    client = await connect(fleet.live())
    page = await seen(client)
    files = {value for tag, name, value in page.attributes if name in ("src", "href") and value.startswith("static/")}
    kinds = set()
    for address in files:
        answer = await client.get(f"/{address}")
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        kinds.add(answer.content_type)
        assert (await client.get(f"/{address.partition('?')[0]}")).headers["Cache-Control"] == "no-store"
    assert kinds == {"text/css", "text/javascript", "image/svg+xml"}


@pytest.mark.parametrize("name", ["page.py", "..%2fpage.py", "%2e%2e/page.py", "page.css%00", ""])
async def test_no_other_file_is_ever_served(name: str, connect: Connect) -> None:
    assert (await (await connect(fleet.live())).get(f"/static/{name}")).status == 404
