"""One page over HTTP. In: a session, an address, limits. Out: the page's text, or one word for what went wrong.

Everything is bounded: time (to the last byte of the body), bytes (as sent and after decompression), redirects (one).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import zlib
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import aiohttp

from agent import __version__
from agent.sources.http_access import AccessKeeper, AccessUnusable

REQUEST_HEADERS = {
    "User-Agent": f"pdwatch/{__version__}",
    # The plain text form: vLLM's own route gives nothing else, and other servers' OpenMetrics is larger, not richer.
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    # Compressing costs the server's only thread more than the network saves: vLLM does not do it, others need not.
    "Accept-Encoding": "identity",
}

_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)

REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class FetchError(Exception):
    """A page that did not come: one short word for the count, a sentence for the reader."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(text)
        self.word = word
        self.text = text


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page's text and the Content-Type that came with it."""

    text: str
    content_type: str


async def fetch_page(
    session: aiohttp.ClientSession, url: str, keeper: AccessKeeper, timeout_seconds: float, max_page_bytes: int
) -> FetchedPage:
    """Fetch one page. Raises FetchError and, apart from cancellation, nothing else.

    Words: timeout, refused, reset, dns, no_route, tls, http_503 (any status but 200), redirect, too_large, cut_off,
    encoding (a compression that cannot be undone), not_http, access (a secret or certificate file), other.
    A body that is not UTF-8 is no failure: its bad bytes become U+FFFD and the reader judges what is left.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _fetch(session, url, keeper, max_page_bytes)
    except TimeoutError:
        raise FetchError("timeout", f"no complete page within {timeout_seconds:g} s") from None
    except AccessUnusable as error:
        raise FetchError("access", str(error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        word = _word_of(error)
        raise FetchError(word, f"{type(error).__name__}: {error}"[:300]) from error


async def _fetch(session: aiohttp.ClientSession, url: str, keeper: AccessKeeper, limit: int) -> FetchedPage:
    authorization = keeper.authorization()
    for is_last in (False, True):
        headers = {"Authorization": authorization} if authorization else None
        context = keeper.tls_context() if url.startswith("https:") else True
        async with session.get(url, headers=headers, ssl=context, allow_redirects=False) as response:
            if response.status == 200:
                return await _read(response, limit)
            if response.status not in REDIRECT_STATUSES:
                reason = f"status {response.status} {response.reason or ''}"
                raise FetchError(f"http_{response.status}", reason.strip())
            if is_last:
                raise FetchError("redirect", "redirected twice; configure the final address")
            location = _location(url, response)
            if _origin(location) != _origin(url):
                authorization = None  # a secret is for the configured server alone
            url = location
    raise AssertionError("a redirect that is the last has raised")


def _location(url: str, response: aiohttp.ClientResponse) -> str:
    text = response.headers.get("Location", "")
    try:
        location = urljoin(url, text)
        scheme, host, _ = _origin(location)
    except ValueError:
        scheme, host, location = "", None, ""
    if not text or scheme not in ("http", "https") or not host:
        raise FetchError("redirect", f"status {response.status} without a usable Location")
    return location


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default_port = 443 if parts.scheme == "https" else 80
    return parts.scheme, parts.hostname, parts.port or default_port


async def _read(response: aiohttp.ClientResponse, limit: int) -> FetchedPage:
    if response.content_length is not None and response.content_length > limit:
        raise FetchError("too_large", f"{response.content_length} bytes announced, {limit} allowed")
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > limit:
            raise FetchError("too_large", f"more than {limit} bytes")
        chunks.append(chunk)
    body = b"".join(chunks) if len(chunks) != 1 else chunks[0]
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        body = _decompressed(body, encoding, limit)
    return FetchedPage(body.decode("utf-8", "replace"), response.headers.get("Content-Type", ""))


def _decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """What a server compressed although we asked it not to. One byte past the limit is enough to refuse."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise FetchError("encoding", f"Content-Encoding {encoding[:40]!r} was not asked for")
    wbits = 31 if encoding != "deflate" else 15
    inflater = zlib.decompressobj(wbits)
    try:
        page = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise FetchError("encoding", f"Content-Encoding {encoding} cannot be undone: {error}") from None
    if len(page) > limit:
        raise FetchError("too_large", f"more than {limit} bytes after decompression")
    if not inflater.eof:
        raise FetchError("cut_off", f"the {encoding} body ends too early")
    return page


def _word_of(error: BaseException) -> str:
    """The one word for an error of aiohttp or of the system, by the most telling of its causes."""
    causes = list(_chain(error))
    if any(isinstance(cause, (aiohttp.ClientConnectorDNSError, socket.gaierror)) for cause in causes):
        return "dns"
    if any(isinstance(cause, (ssl.SSLError, aiohttp.ClientSSLError, ssl.CertificateError)) for cause in causes):
        return "tls"
    if any(isinstance(cause, aiohttp.ClientPayloadError) for cause in causes):
        return "cut_off"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "refused"
    if any(isinstance(cause, (ConnectionError, aiohttp.ServerDisconnectedError)) for cause in causes):
        return "reset"
    if any(isinstance(cause, aiohttp.ClientResponseError) for cause in causes):
        return "not_http"
    if any(isinstance(cause, OSError) and cause.errno in _NO_ROUTE for cause in causes):
        return "no_route"
    return "other"


def _chain(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and len(causes) < 10:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes
