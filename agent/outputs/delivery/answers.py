"""One post to a receiver. In: a session, an address, a body. Out: what became of it, and never an exception.

`accepted` is done. `retry` is what may succeed later with the same bytes: no connection, no answer in time, 408, 425,
429, 5xx. `refused` is what will not: any other status, a secret that cannot be read. Texts hold no URL, since the URL
of a webhook is a secret.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from ssl import SSLContext
from typing import Any, Literal

import aiohttp

from agent import __version__

TIMEOUT_SECONDS = 10.0
MOST_ANSWER_BYTES = 4096
SAID_CHARACTERS = 200
LATER_STATUSES = frozenset({408, 425, 429})
LONGEST_RETRY_AFTER_SECONDS = 900.0

AnswerKind = Literal["accepted", "retry", "refused"]


@dataclass(frozen=True, slots=True)
class Answer:
    """`word` is short and countable: 2xx, http_503, timeout, connection, secret. `text` is for people."""

    kind: AnswerKind
    word: str
    text: str = ""
    retry_after_seconds: float | None = None


async def post_json(
    session: aiohttp.ClientSession,
    url: str,
    body: object,
    now: float,
    *,
    headers: Mapping[str, str] | None = None,
    tls: SSLContext | None = None,
) -> Answer:
    """Posts `body` as JSON. `now`: unix seconds, for a Retry-After that is a date."""
    sent = {"Content-Type": "application/json", "User-Agent": f"pdwatch/{__version__}", **(headers or {})}
    options: dict[str, Any] = {} if tls is None or not url.startswith("https:") else {"ssl": tls}
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            async with session.post(
                url, data=json.dumps(body).encode(), headers=sent, allow_redirects=False, **options
            ) as response:
                said = (await response.content.read(MOST_ANSWER_BYTES)).decode("utf-8", "replace")
                return answer_of(response.status, said, response.headers.get("Retry-After"), now)
    except TimeoutError:
        return Answer("retry", "timeout", f"no answer within {TIMEOUT_SECONDS:g} s")
    except aiohttp.InvalidURL:
        return Answer("refused", "url", "its URL cannot be used")
    except (aiohttp.ClientError, OSError) as error:
        return Answer("retry", "connection", f"{type(error).__name__}: {_reason(error)}")


def answer_of(status: int, said: str, retry_after: str | None, now: float) -> Answer:
    """What a status means."""
    if 200 <= status < 300:
        return Answer("accepted", "2xx")
    text = f"status {status}" + (f": {' '.join(said.split())[:SAID_CHARACTERS]}" if said.strip() else "")
    if status in LATER_STATUSES or status >= 500:
        return Answer("retry", f"http_{status}", text, _seconds(retry_after, now))
    return Answer("refused", f"http_{status}", text)


def _seconds(retry_after: str | None, now: float) -> float | None:
    """Seconds of a Retry-After, a number or a date; None where it is absent or no use."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            when = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else None


def _reason(error: Exception) -> str:
    """What the system says, without addresses that may be secret."""
    found = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return found.strerror or "failed" if isinstance(found, OSError) else "the connection broke"
