"""Bodies go on to a collector unchanged; a collector that is down, slow or full costs its data and nothing else."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from agent.config import Auth, Forward
from agent.sources.traces_forward import MOST_BODIES, MOST_BYTES, ForwardBody, Forwarder
from tests.sources.otlp_bodies import PROTOBUF, protobuf_body
from tests.sources.test_traces import receiving
from tests.spans import decode_span


class Collector:
    """What a collector was sent, and how it answers."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.ready = asyncio.Event()
        self.ready.set()
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        await self.ready.wait()
        return web.Response(status=self.status)


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application(client_max_size=1 << 24)
    app.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    yield collector
    await runner.cleanup()


@asynccontextmanager
async def delivering(forwarder: Forwarder) -> AsyncIterator[None]:
    task = asyncio.create_task(forwarder.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    """Lets everybody else go on until it holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


async def test_a_body_goes_on_as_it_came_even_when_nothing_in_it_is_ours():
    packed = gzip.compress(protobuf_body("other", decode_span()))
    async with collecting() as collector:
        forward = Forward(collector.url, Auth(bearer_token="t0ken"))
        async with receiving(forward=forward) as work:
            assert work.receiver.forwarder is not None
            async with delivering(work.receiver.forwarder):
                assert (await work.post(packed, Content_Encoding="gzip"))[0] == 200
                assert (await work.post(b"<html>"))[0] == 400
                await until(lambda: len(collector.bodies) == 2)
    assert collector.bodies == [packed, b"<html>"]
    first = collector.headers[0]
    assert (first["Content-Type"], first["Content-Encoding"]) == (PROTOBUF, "gzip")
    assert first["Authorization"] == "Bearer t0ken"
    assert "Content-Encoding" not in collector.headers[1]


async def test_while_the_collector_hangs_senders_are_answered_and_the_queue_stays_bounded():
    async with collecting() as collector:
        collector.ready.clear()
        async with receiving(forward=Forward(collector.url)) as work:
            forwarder = work.receiver.forwarder
            assert forwarder is not None
            async with delivering(forwarder):
                for number in range(MOST_BODIES + 50):
                    body = protobuf_body("decode-0", decode_span(f"cmpl-{number}-0"))
                    assert (await work.post(body))[0] == 200
                assert forwarder.counts.dropped >= 40
                assert len(work.spans) == MOST_BODIES + 50
                collector.ready.set()
                await until(lambda: forwarder.counts.sent + forwarder.counts.dropped == MOST_BODIES + 50)
    assert len(collector.bodies) == forwarder.counts.sent


async def test_the_queue_is_bounded_in_bytes_too():
    forwarder = Forwarder(Forward("http://127.0.0.1:9/v1/traces"))
    large = ForwardBody(bytes(MOST_BYTES // 4), PROTOBUF, "")
    for _ in range(10):
        forwarder.put(large)
    assert forwarder.counts.dropped == 6


async def test_a_collector_that_is_down_or_refuses_is_counted_by_how():
    forwarder = Forwarder(Forward("http://127.0.0.1:9/v1/traces"))
    async with delivering(forwarder):
        forwarder.put(ForwardBody(b"x", PROTOBUF, ""))
        await until(lambda: forwarder.counts.failed == {"refused": 1})
    async with collecting() as collector:
        collector.status = 503
        forwarder = Forwarder(Forward(collector.url))
        async with delivering(forwarder):
            forwarder.put(ForwardBody(b"x", PROTOBUF, ""))
            await until(lambda: forwarder.counts.failed == {"http_503": 1})
            collector.status = 200
            forwarder.put(ForwardBody(b"y", PROTOBUF, ""))
            await until(lambda: forwarder.counts.sent == 1)
    assert forwarder._bytes == 0
