"""Bodies go on to a collector, unchanged. In: bodies as they came. Out: the same requests to the collector.

The queue is bounded in bodies and bytes; nobody waits for it. A collector that is down, slow or full costs its data
and nothing else: what cannot be queued or delivered is dropped and counted.
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter, deque
from dataclasses import dataclass, field

import aiohttp

from agent.config import Access, Forward
from agent.sources.http_access import AccessKeeper, AccessUnusable

MOST_BODIES = 256
MOST_BYTES = 32 << 20
TIMEOUT_SECONDS = 10.0
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ForwardBody:
    """One body with the headers that say what it is."""

    body: bytes
    content_type: str
    content_encoding: str


@dataclass(slots=True)
class ForwardCounts:
    """Bodies, since the start. `failed`: by a short word such as timeout, refused, http_503."""

    sent: int = 0
    dropped: int = 0
    failed: Counter[str] = field(default_factory=Counter)


class Forwarder:
    """Delivers while `run` runs; `put` never waits."""

    def __init__(self, forward: Forward) -> None:
        self.counts = ForwardCounts()
        self._url = forward.url
        self._keeper = AccessKeeper(Access(forward.auth, forward.tls))
        self._bodies: deque[ForwardBody] = deque()
        self._bytes = 0
        self._more = asyncio.Event()

    def put(self, body: ForwardBody) -> None:
        """Queues a body, or drops it where the queue is full."""
        if len(self._bodies) >= MOST_BODIES or self._bytes + len(body.body) > MOST_BYTES:
            self.counts.dropped += 1
            return
        self._bodies.append(body)
        self._bytes += len(body.body)
        self._more.set()

    async def run(self) -> None:
        """Delivers until it is cancelled."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(AT_ONCE):
                tasks.create_task(self._deliver(session))

    async def _deliver(self, session: aiohttp.ClientSession) -> None:
        while True:
            while not self._bodies:
                self._more.clear()
                await self._more.wait()
            body = self._bodies.popleft()
            failure = await self._post(session, body)
            self._bytes -= len(body.body)
            if failure is None:
                self.counts.sent += 1
            elif failure in self.counts.failed or len(self.counts.failed) < 50:
                self.counts.failed[failure] += 1

    async def _post(self, session: aiohttp.ClientSession, body: ForwardBody) -> str | None:
        headers = {"Content-Type": body.content_type}
        if body.content_encoding:
            headers["Content-Encoding"] = body.content_encoding
        try:
            authorization = self._keeper.authorization()
            tls = self._keeper.tls_context() if self._url.startswith("https:") else True
            if authorization:
                headers["Authorization"] = authorization
            async with session.post(
                self._url, data=io.BytesIO(body.body), headers=headers, ssl=tls, allow_redirects=False
            ) as answer:
                return None if answer.status < 300 else f"http_{answer.status}"
        except TimeoutError:
            return "timeout"
        except AccessUnusable:
            return "access"
        except aiohttp.ClientConnectorError:
            return "refused"
        except (aiohttp.ClientError, OSError, ValueError):
            return "broken"
