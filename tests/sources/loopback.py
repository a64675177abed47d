"""What tests of HTTP need: servers on loopback that do exactly what a test says, and a clock turned by hand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext

Answer = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    """One request as it came: path, and headers by lower-case name. `connection` counts from 0."""

    path: str
    headers: dict[str, str]
    connection: int


@dataclass
class Server:
    """A server's address and what it was asked."""

    url: str
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0


def response(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """A whole HTTP response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def always(data: bytes) -> Answer:
    """Answers every request with the same bytes."""

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


@asynccontextmanager
async def serving(answer: Answer, tls: SSLContext | None = None) -> AsyncIterator[Server]:
    """Serves until the test leaves; connections still open are then closed.

    `answer` writes its own bytes. What it raises closes the connection; a closed writer ends it.
    """
    tasks: set[asyncio.Task[None]] = set()
    server = Server("")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        number, server.connections = server.connections, server.connections + 1
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1)[:1] + line.split(": ", 1)[1:] for line in head[1:] if line)
                request = Request(head[0].split(" ")[1], headers, number)
                server.requests.append(request)
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
                try:
                    await answer(request, writer)
                    await writer.drain()
                finally:
                    server.at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the test did
        finally:
            writer.close()
            tasks.discard(task)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    scheme = "https" if tls else "http"
    server.url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}/metrics"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class TurnedClock:
    """A clock that stands still until a test turns it. Sleepers wake in order of their times."""

    def __init__(self, wall: float = 1_000_000.0, steady: float = 500.0) -> None:
        self.wall_now = wall
        self.steady_now = steady
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._changed = asyncio.Event()

    def wall(self) -> float:
        return self.wall_now

    def steady(self) -> float:
        return self.steady_now

    async def sleep_until(self, steady: float) -> None:
        if steady <= self.steady_now:
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((steady, waiting))
        self._changed.set()
        await waiting

    @property
    def next_due(self) -> float | None:
        """The earliest time that somebody sleeps until."""
        return min((due for due, waiting in self._sleepers if not waiting.done()), default=None)

    async def sleeping(self, count: int) -> None:
        """Return once `count` tasks sleep: then everything else has been done."""
        async with asyncio.timeout(10):
            while sum(not waiting.done() for _, waiting in self._sleepers) < count:
                self._changed.clear()
                await self._changed.wait()

    def turn(self, seconds: float, step: float = 0.0) -> None:
        """Let time pass, and set the wall clock by `step` more."""
        self.steady_now += seconds
        self.wall_now += seconds + step
        for due, waiting in sorted(self._sleepers, key=lambda sleeper: sleeper[0]):
            if due <= self.steady_now and not waiting.done():
                waiting.set_result(None)
        self._sleepers = [sleeper for sleeper in self._sleepers if not sleeper[1].done()]
