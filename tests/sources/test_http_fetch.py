"""One page over HTTP from servers that behave, and from those that do not: each failure has its word and its bound."""

import asyncio
import errno
import gzip
import socket
import ssl
import threading
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from agent import __version__
from agent.config import Access, Auth, Scrape, Tls
from agent.sources.http import open_session
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import FetchedPage, FetchError, fetch_page
from tests.sources.loopback import Request, always, response, serving

PAGE = b'vllm:num_requests_running{engine="0"} 1.0\n'
LIMIT = 1 << 20


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session(Scrape()) as session:
        yield session


async def fetch(
    session: aiohttp.ClientSession, url: str, access: Access | AccessKeeper | None = None, timeout_seconds: float = 10.0
) -> FetchedPage:
    keeper = access if isinstance(access, AccessKeeper) else AccessKeeper(access or Access())
    return await fetch_page(session, url, keeper, timeout_seconds, LIMIT)


async def word(
    session: aiohttp.ClientSession, url: str, access: Access | AccessKeeper | None = None, timeout_seconds: float = 10.0
) -> str:
    with pytest.raises(FetchError) as raised:
        await fetch(session, url, access, timeout_seconds)
    assert raised.value.text
    return raised.value.word


async def test_a_page_comes_with_its_content_type_and_the_server_knows_who_asked(session):
    async with serving(always(response(PAGE, "Content-Type: text/plain; version=1.0.0", "Set-Cookie: a=b"))) as server:
        first = await fetch(session, server.url)
        second = await fetch(session, server.url)
    assert first == second == FetchedPage(PAGE.decode(), "text/plain; version=1.0.0")
    request = server.requests[-1]
    assert request.path == "/metrics"
    assert request.headers["user-agent"] == f"pdwatch/{__version__}"
    assert request.headers["accept"].startswith("text/plain;version=0.0.4")
    assert request.headers["accept-encoding"] == "identity"
    assert "cookie" not in request.headers
    assert "authorization" not in request.headers
    assert server.connections == 1  # kept, not opened anew


async def test_bytes_that_are_no_utf_8_do_not_cost_the_rest_of_the_page(session):
    async with serving(always(response(b'a{b="\xff"} 1\n' + PAGE))) as server:
        assert (await fetch(session, server.url)).text == 'a{b="\ufffd"} 1\n' + PAGE.decode()


@pytest.mark.parametrize(
    ("status", "expected"),
    [("503 Service Unavailable", "http_503"), ("401 Unauthorized", "http_401"), ("404 Not Found", "http_404"),
     ("204 No Content", "http_204"), ("500", "http_500")],
)  # fmt: skip
async def test_any_status_but_200_is_its_own_word(session, status, expected):
    async with serving(always(response(b"", status=status))) as server:
        assert await word(session, server.url) == expected


# -- time -----------------------------------------------------------------------------------------------------------


async def test_a_server_that_never_answers_ends_at_the_deadline(session):
    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(hang) as server:
        assert await word(session, server.url, timeout_seconds=0.05) == "timeout"


async def test_a_body_that_trickles_in_ends_at_the_same_deadline(session):
    async def trickle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"#")
            await writer.drain()
            await asyncio.sleep(0.001)

    async with serving(trickle) as server:
        assert await word(session, server.url, timeout_seconds=0.05) == "timeout"


async def test_giving_up_a_scrape_is_not_taken_for_a_failure_of_the_target(session):
    asked = asyncio.Event()

    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with serving(hang) as server:
        task = asyncio.create_task(fetch(session, server.url))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# -- size -----------------------------------------------------------------------------------------------------------


async def test_a_page_of_50_mb_that_says_so_is_not_read(session):
    sent = 0

    async def flood(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        for _megabyte in range(50):
            writer.write(b"#" * 1_000_000)
            await writer.drain()
            sent += 1_000_000

    async with serving(flood) as server:
        assert await word(session, server.url) == "too_large"
    assert sent < 20_000_000  # buffers of both ends, not the page


async def test_a_page_of_50_mb_that_does_not_say_so_is_read_to_the_limit(session):
    sent = 0

    async def flood(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _megabyte in range(50):
            writer.write(b"F4240\r\n" + b"#" * 1_000_000 + b"\r\n")
            await writer.drain()
            sent += 1_000_000
        writer.write(b"0\r\n\r\n")

    async with serving(flood) as server:
        assert await word(session, server.url) == "too_large"
    assert sent < 20_000_000


async def test_a_page_of_exactly_the_limit_is_taken(session):
    async with serving(always(response(b"#" * LIMIT))) as server:
        assert len((await fetch(session, server.url)).text) == LIMIT


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_page_compressed_unasked_is_read_all_the_same(session, encoding):
    body = gzip.compress(PAGE * 10) if encoding == "gzip" else zlib.compress(PAGE * 10)
    async with serving(always(response(body, f"Content-Encoding: {encoding}"))) as server:
        assert (await fetch(session, server.url)).text == PAGE.decode() * 10


async def test_a_gzip_bomb_is_refused_without_being_unpacked(session):
    bomb = gzip.compress(b"\0" * 50_000_000, 1)
    assert len(bomb) < LIMIT
    async with serving(always(response(bomb, "Content-Encoding: gzip"))) as server:
        assert await word(session, server.url) == "too_large"


@pytest.mark.parametrize(
    ("body", "encoding", "expected"),
    [
        (gzip.compress(PAGE, mtime=0)[:-12], "gzip", "cut_off"),
        (b"no gzip at all", "gzip", "encoding"),
        (PAGE, "br", "encoding"),
        (PAGE, "gzip, gzip", "encoding"),
    ],
)
async def test_a_compression_that_cannot_be_undone_is_said(session, body, encoding, expected):
    async with serving(always(response(body, f"Content-Encoding: {encoding}"))) as server:
        assert await word(session, server.url) == expected


# -- connections ----------------------------------------------------------------------------------------------------


async def test_a_closed_port_refuses(session):
    async with serving(always(response())) as server:
        url = server.url
    assert await word(session, url) == "refused"


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EHOSTUNREACH, "no_route"), (errno.ENETUNREACH, "no_route"), (errno.EMFILE, "other")]
)
async def test_a_host_that_cannot_be_reached_is_told_from_other_errors(session, monkeypatch, number, expected):
    async def fail(*_: object) -> None:
        raise OSError(number, "told by the system")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", fail)
    assert await word(session, "http://192.0.2.1:8000/metrics") == expected


async def test_a_name_that_does_not_resolve_is_a_matter_of_dns(session, monkeypatch):
    def unresolved(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    assert await word(session, "http://decode-0.example:8000/metrics") == "dns"
    monkeypatch.undo()
    assert await word(session, f"http://{'x' * 70}.example:8000/metrics") == "dns"  # no label may be that long


async def test_a_name_whose_lookup_hangs_is_asked_once_and_delays_no_other(session, monkeypatch):
    release = threading.Event()
    asked: list[str] = []
    real = socket.getaddrinfo

    def slow(host: str, *rest: Any) -> Any:
        asked.append(host)
        if host == "hung.example":
            release.wait(10)
        return real("127.0.0.1", *rest)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    async with serving(always(response(PAGE))) as server:
        hung, fine = (server.url.replace("127.0.0.1", f"{name}.example") for name in ("hung", "fine"))
        for _ in range(3):
            assert await word(session, hung, timeout_seconds=0.02) == "timeout"
            assert (await fetch(session, fine)).text == PAGE.decode()
        assert asked == ["hung.example", "fine.example"]
        release.set()
        assert (await fetch(session, hung)).text == PAGE.decode()


async def test_a_connection_closed_without_an_answer_is_a_reset(session):
    async def leave(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serving(leave) as server:
        assert await word(session, server.url) == "reset"


async def test_a_connection_torn_down_is_a_reset(session):
    async def tear(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with serving(tear) as server:
        assert await word(session, server.url) == "reset"


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n29\r\n",
    ],
)
async def test_a_body_shorter_than_announced_is_cut_off(session, start):
    async def cut(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(start + PAGE)
        writer.close()

    async with serving(cut) as server:
        assert await word(session, server.url) == "cut_off"


async def test_a_server_that_speaks_something_else_is_not_http(session):
    async with serving(always(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n")) as server:
        assert await word(session, server.url) == "not_http"


async def test_a_server_that_closed_an_idle_connection_is_asked_again_at_once(session):
    async def once(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(PAGE))
        await writer.drain()
        writer.close()  # as uvicorn does after five idle seconds, without saying so before

    async with serving(once) as server:
        for _ in range(3):
            assert (await fetch(session, server.url)).text == PAGE.decode()
    assert server.connections == 3


# -- redirects ------------------------------------------------------------------------------------------------------


async def test_one_redirect_is_followed(session):
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        moved = response(b"", "Location: /metrics/", status="307 Temporary Redirect")
        writer.write(moved if request.path == "/metrics" else response(PAGE))

    async with serving(answer) as server:
        assert (await fetch(session, server.url)).text == PAGE.decode()


async def test_a_loop_of_redirects_ends_after_the_first(session):
    async with serving(always(response(b"", "Location: /metrics", status="302 Found"))) as server:
        assert await word(session, server.url) == "redirect"
    assert len(server.requests) == 2


@pytest.mark.parametrize("header", ["X: y", "Location: ftp://h/", "Location: http://", "Location: http://[bad/"])
async def test_a_redirect_to_nowhere_is_said(session, header):
    async with serving(always(response(b"", header, status="301 Moved"))) as server:
        assert await word(session, server.url) == "redirect"


async def test_a_secret_follows_a_redirect_on_its_server_and_never_to_another(session):
    access = Access(Auth(bearer_token="SECRET"))
    async with serving(always(response(PAGE))) as other:

        async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
            where = {"/metrics": "/second", "/away": other.url}.get(request.path)
            writer.write(response(b"", f"Location: {where}", status="302 Found") if where else response(PAGE))

        async with serving(answer) as server:
            await fetch(session, server.url, access)
            assert [request.headers["authorization"] for request in server.requests] == ["Bearer SECRET"] * 2
            await fetch(session, server.url.replace("/metrics", "/away"), access)
    assert server.requests[-1].headers["authorization"] == "Bearer SECRET"
    assert "authorization" not in other.requests[0].headers


# -- authentication -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        (Auth(bearer_token="t0ken"), "Bearer t0ken"),
        (Auth(username="user", password="pässword"), "Basic dXNlcjpww6Rzc3dvcmQ="),
    ],
)
async def test_a_target_is_entered_as_its_pool_says(session, auth, header):
    async with serving(always(response(PAGE))) as server:
        await fetch(session, server.url, Access(auth))
    assert server.requests[0].headers["authorization"] == header


async def test_a_secret_file_is_read_again_when_it_changes(session, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("first\n", encoding="utf-8")
    keeper = AccessKeeper(Access(Auth(bearer_token_file=str(file))))
    async with serving(always(response(PAGE))) as server:
        await fetch(session, server.url, keeper)
        await fetch(session, server.url, keeper)
        (tmp_path / "new").write_text("second", encoding="utf-8")
        (tmp_path / "new").replace(file)
        await fetch(session, server.url, keeper)
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer first", "Bearer first", "Bearer second"]


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two\nlines", b"\xff\xfe", b"x" * 100_000])
async def test_a_secret_file_that_cannot_be_used_is_said_and_nothing_is_sent(session, tmp_path: Path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    access = Access(Auth(username="u", password_file=str(file)))
    async with serving(always(response(PAGE))) as server:
        assert await word(session, server.url, access) == "access"
    assert server.requests == []


# -- TLS ------------------------------------------------------------------------------------------------------------


class Authority:
    """A certificate authority with a server's and a client's certificate, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.ca_file = self._write("ca.pem", self.ca.cert_pem.bytes())
        client = self.ca.issue_cert("client@example")
        self.cert_file = self._write("client.pem", client.cert_chain_pems[0].bytes())
        self.key_file = self._write("client.key", client.private_key_pem.bytes())

    def server_context(self, *, name: str = "127.0.0.1", wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(name).configure_cert(context)
        if wants_client:
            self.ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return str(self.folder / name)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def test_a_server_with_a_certificate_of_the_configured_authority_is_trusted(session, authority):
    async with serving(always(response(PAGE)), authority.server_context()) as server:
        access = Access(tls=Tls(ca_file=authority.ca_file))
        assert (await fetch(session, server.url, access)).text == PAGE.decode()


async def test_a_server_of_an_unknown_authority_or_another_name_is_not_trusted(session, authority):
    async with serving(always(response(PAGE)), authority.server_context()) as server:
        assert await word(session, server.url) == "tls"
        accepts_any = Access(tls=Tls(insecure_skip_verify=True))
        assert (await fetch(session, server.url, accepts_any)).text == PAGE.decode()
    async with serving(always(response(PAGE)), authority.server_context(name="other.example")) as server:
        assert await word(session, server.url, Access(tls=Tls(ca_file=authority.ca_file))) == "tls"


async def test_a_server_that_wants_a_certificate_gets_the_configured_one(session, authority):
    async with serving(always(response(PAGE)), authority.server_context(wants_client=True)) as server:
        without = Access(tls=Tls(ca_file=authority.ca_file))
        assert await word(session, server.url, without) in ("tls", "reset")  # by who closes first
        known = Access(tls=Tls(authority.ca_file, authority.cert_file, authority.key_file))
        assert (await fetch(session, server.url, known)).text == PAGE.decode()


async def test_https_to_a_plain_port_is_a_matter_of_tls(session):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # the first byte of a handshake is no HTTP
        writer.write(response(b"", status="400 Bad Request"))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await word(session, f"https://127.0.0.1:{port}/metrics") == "tls"


@pytest.mark.parametrize("content", [None, b"no certificate"])
async def test_a_certificate_file_that_cannot_be_used_is_said(session, tmp_path: Path, content):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    assert await word(session, "https://127.0.0.1:1/", Access(tls=Tls(ca_file=str(file)))) == "access"


def test_a_context_is_made_anew_only_when_its_files_change(tmp_path: Path, authority):
    file = tmp_path / "ca.pem"
    file.write_bytes(Path(authority.ca_file).read_bytes())
    keeper = AccessKeeper(Access(tls=Tls(ca_file=str(file))))
    first = keeper.tls_context()
    assert keeper.tls_context() is first
    (tmp_path / "new").write_bytes(trustme.CA().cert_pem.bytes())
    (tmp_path / "new").replace(file)
    assert keeper.tls_context() is not first
