"""Asks a running pdwatch for its state. In: its address as a person gives it. Out: the document, or why none."""

from __future__ import annotations

import json
import os
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from agent.errors import ConfigError, ViewerError
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.words import clean

STATE_PATH = "/api/v1/state"
TIMEOUT_SECONDS = 10.0
MOST_BYTES = 128 << 20
"""A state of ten thousand engines is about 50 MB."""


def state_url(address: str) -> str:
    """The state's URL for `host:port`, the address of the page, or the URL itself. Raises ConfigError."""
    text = address if "://" in address else f"http://{address}"
    named = clean(address.rpartition("@")[2])
    wrong = ConfigError(f"top: {named!r} is not an address; give http://HOST:PORT of a running pdwatch")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise wrong from None
    if not usable or any(character.isspace() for character in address):
        raise wrong
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith(STATE_PATH) else path + STATE_PATH, "", ""))


def shown(url: str) -> str:
    """The URL without the password that it may hold."""
    parts = urlsplit(url)
    return clean(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


async def fetch_state(session: aiohttp.ClientSession, url: str) -> Part:
    """One state. Raises ViewerError with a sentence of one line."""
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as answer:
            if answer.status != 200:
                raise ViewerError(f"{shown(url)} answered {answer.status} {clean(answer.reason or '')}".rstrip())
            body = bytearray()
            while len(body) <= MOST_BYTES and (part := await answer.content.readany()):
                body += part
    except TimeoutError:
        raise ViewerError(f"{shown(url)} did not answer within {TIMEOUT_SECONDS:.0f} s") from None
    except aiohttp.ClientConnectorError as error:
        number = error.os_error.errno
        why = os.strerror(number).lower() if number else str(error.os_error) or "no connection"
        raise ViewerError(f"{shown(url)} cannot be reached: {clean(why)}; is pdwatch running there?") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ViewerError(f"{shown(url)} cannot be read: {clean(str(error)) or type(error).__name__}") from None
    return parsed(body, url)


def parsed(body: bytes | bytearray, url: str) -> Part:
    """The document in an answer. Raises ViewerError where it is none."""
    if len(body) > MOST_BYTES:
        raise ViewerError(f"{shown(url)} answered more than {MOST_BYTES >> 20} MiB")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("type") != "state":
        raise ViewerError(f"{shown(url)} is not a state of pdwatch; give the address that `pdwatch run` prints")
    return Part(document)
