"""DNS with answers by hand, http_sd against a real server: failures are failures, never empty lists."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import ResolveResult
from aiohttp.test_utils import TestServer

from agent.config import Auth, Dns, HttpSd
from agent.sources.discovery import dns
from agent.sources.discovery.dns import DnsLists
from agent.sources.discovery.found import DiscoveryError
from agent.sources.discovery.web import WebList
from agent.sources.http_names import NameResolver

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Names(NameResolver):
    """Answers by name; an exception is raised."""

    def __init__(self, answers: dict[str, list[str] | OSError]) -> None:
        super().__init__()
        self.answers = answers

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answer = self.answers[host]
        if isinstance(answer, OSError):
            raise answer
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=6, flags=0) for address in answer
        ]


async def test_addresses_become_targets_in_a_steady_order() -> None:
    names = Names({"decode": ["10.0.0.2", "10.0.0.1", "10.0.0.2"]})
    lists = DnsLists(Dns(("decode",), port=8000), names)
    assert [target.name for target in (await lists.look()).targets] == ["10.0.0.1:8000", "10.0.0.2:8000"]
    names.answers["decode"] = ["10.0.0.1", "10.0.0.2"]
    assert [target.name for target in (await lists.look()).targets] == ["10.0.0.1:8000", "10.0.0.2:8000"]


async def test_ipv6_addresses_stand_in_brackets() -> None:
    lists = DnsLists(Dns(("decode",), "AAAA", 8000), Names({"decode": ["2001:db8::1"]}))
    (target,) = (await lists.look()).targets
    assert (target.address, dict(target.labels)) == ("[2001:db8::1]:8000", {"dns_name": "decode"})


@pytest.mark.parametrize("answer", [[], socket.gaierror(socket.EAI_NONAME, "Name or service not known")])
async def test_a_name_without_an_address_is_a_failure(answer: list[str] | OSError) -> None:
    lists = DnsLists(Dns(("there", "gone"), port=8000), Names({"there": ["10.0.0.1"], "gone": answer}))
    with pytest.raises(DiscoveryError, match=r"^gone: "):
        await lists.look()


async def test_service_records_give_host_and_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async def records(_: str) -> list[tuple[str, int]]:
        return [("decode-1.vllm.", 8001), ("decode-0.vllm.", 8000), (".", 0)]

    monkeypatch.setattr(dns, "service_records", records)
    lists = DnsLists(Dns(("_metrics._tcp.vllm",), "SRV"))
    assert [target.address for target in (await lists.look()).targets] == ["decode-0.vllm:8000", "decode-1.vllm:8001"]


async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dns.asyncresolver", None)
    with pytest.raises(DiscoveryError, match=r"pdwatch\[dns\]"):
        await DnsLists(Dns(("x",), "SRV")).look()


async def test_a_question_that_nobody_answers_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncresolver = pytest.importorskip("dns.asyncresolver", reason="SRV records need the extra dns")

    async def silent(*_: object, **__: object) -> None:
        raise __import__("dns.exception").exception.Timeout

    monkeypatch.setattr(asyncresolver, "resolve", silent)
    with pytest.raises(DiscoveryError, match="timed out"):
        await DnsLists(Dns(("x",), "SRV")).look()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def looked(handler: Handler, session: aiohttp.ClientSession, auth: Auth | None = None) -> list[str]:
    app = web.Application()
    app.router.add_get("/list", handler)
    async with TestServer(app) as server:
        config = HttpSd(str(server.make_url("/list?token=abc")), auth=auth or Auth())
        return [target.name for target in (await WebList(config, session).look()).targets]


async def test_a_list_over_http_is_asked_for_with_its_token(session: aiohttp.ClientSession) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer t"
        assert request.query["token"] == "abc"
        return web.json_response([{"targets": ["a:1"]}])

    assert await looked(answer, session, Auth(bearer_token="t")) == ["a:1"]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, "[]", "http_500"),
        (401, "[]", "http_401"),
        (204, "", "http_204"),
        (200, "", "not valid JSON"),
        (200, "<html>", "not valid JSON"),
        (200, "x" * (5 << 20), "too_large"),
        (302, "", "redirect"),
    ],
)
async def test_an_answer_that_is_no_list_is_a_failure(
    status: int, body: str, said: str, session: aiohttp.ClientSession
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body or None)

    with pytest.raises(DiscoveryError, match=said) as caught:
        await looked(answer, session)
    assert "abc" not in caught.value.text, "what stands in a query is not shown"
