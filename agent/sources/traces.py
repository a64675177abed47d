"""Spans as servers send them, over OTLP/HTTP. In: POST /v1/traces. Out: span observations, an answer at once.
What comes over gRPC (`traces_grpc`) goes through `let_in` and `take` as well.

The sender is a thread inside vLLM's API server: it must get its answer within milliseconds, whatever state pdwatch is
in. Everything is bounded (bytes of a body and of all bodies, time, spans per second, work per body), and what is left
out is counted and told to the sender in OTLP's own way.
"""

from __future__ import annotations

import asyncio
import hmac
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from agent.config import Access, Auth, Config
from agent.model import Observation, SpansObservation
from agent.sources import traces_json, traces_protobuf
from agent.sources.clock import Clock, SystemClock
from agent.sources.http_access import AccessKeeper, AccessUnusable
from agent.sources.traces_body import ENCODINGS, BodyReader, BodyRefused
from agent.sources.traces_bucket import TokenBucket
from agent.sources.traces_forward import ForwardBody, Forwarder
from agent.sources.traces_spans import Batch, UndecodableBody
from agent.sources.traces_targets import TargetNames

PATH = "/v1/traces"
BODY_TIMEOUT_SECONDS = 10.0
HELD_BODIES = 4
"""Bodies of the largest size that may be on their way at once; many more small ones."""
BYTES_PER_SECOND = 16 << 20
"""Unpacked bytes that are worked on per second, on average. What has to be refused costs like two of the largest."""
BURST_SECONDS = 4.0
MOST_SPANS_OF_A_BODY = 10_000

Emit = Callable[[Observation], None]

_ENCODERS: dict[str, ModuleType] = {
    traces_protobuf.CONTENT_TYPE: traces_protobuf,
    traces_json.CONTENT_TYPE: traces_json,
}


@dataclass(slots=True)
class TraceCounts:
    """Since the start. `spans`: requests' spans that were taken; `refused`: bodies by HTTP status."""

    bodies: int = 0
    spans: int = 0
    others: int = 0
    malformed: int = 0
    over_rate: int = 0
    over_size: int = 0
    unknown_service: int = 0
    refused: Counter[int] = field(default_factory=Counter)


class TraceReceiver:
    """Takes spans and emits observations. Raises ConfigError for services that lead nowhere.

    `routes` go into the server, whose runner must leave bodies compressed (`auto_decompress=False`); `run` delivers
    to the collector behind, if one is configured. `emit` is called in the event loop.
    """

    def __init__(self, config: Config, emit: Emit, clock: Clock | None = None) -> None:
        self.counts = TraceCounts()
        self.names = TargetNames(config)
        self.forwarder = Forwarder(config.traces.forward) if config.traces.forward is not None else None
        self._emit = emit
        self._clock = clock or SystemClock()
        most_bytes, per_second = config.traces.max_body_bytes, config.traces.spans_per_second
        self._reader = BodyReader(most_bytes, HELD_BODIES * most_bytes, BODY_TIMEOUT_SECONDS)
        now = self._clock.steady()
        self._bytes = TokenBucket(BYTES_PER_SECOND, BURST_SECONDS * BYTES_PER_SECOND, now)
        self._spans = TokenBucket(per_second, BURST_SECONDS * per_second, now)
        token = Auth(bearer_token=config.traces.bearer_token, bearer_token_file=config.traces.bearer_token_file)
        self._keeper = AccessKeeper(Access(token)) if token.is_given else None

    def routes(self) -> Sequence[web.RouteDef]:
        """What the server has to answer."""
        return [web.post(PATH, self.handle)]

    async def run(self) -> None:
        """Until cancelled: delivers to the collector behind. Ends at once without one."""
        if self.forwarder is not None:
            await self.forwarder.run()

    async def handle(self, request: web.Request) -> web.Response:
        """One export. Answers 200 with what was left out, or 400, 401, 408, 413, 415, 429 and 503."""
        content_type = request.content_type
        encoder = _ENCODERS.get(content_type)
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        try:
            self.let_in(request.headers.get("Authorization", ""))
            if encoder is None:
                raise BodyRefused(415, "send application/x-protobuf or application/json")
            if encoding not in ENCODINGS:
                raise BodyRefused(415, "send gzip, deflate or uncompressed bodies")
            body = await self._read(request)
            rejected, message = await self.take(body, encoding, encoder)
        except BodyRefused as refused:
            self.counts.refused[refused.status] += 1
            return self._refusal(refused, encoder or traces_protobuf)
        return web.Response(body=encoder.response(rejected, message), content_type=content_type)

    @property
    def most_bytes(self) -> int:
        """Of one body, as sent and unpacked."""
        return self._reader.most_bytes

    def let_in(self, authorization: str) -> None:
        """Before a body is read; `authorization` as in HTTP's header. Raises BodyRefused: 401, 429, 503."""
        if self._keeper is not None:
            try:
                wanted = self._keeper.authorization() or ""
            except AccessUnusable:
                raise BodyRefused(503, "the token of this receiver cannot be read") from None
            if not hmac.compare_digest(authorization.encode("utf-8", "replace"), wanted.encode()):
                raise BodyRefused(401, "a bearer token is needed")
        if self._bytes.wait_seconds(self._clock.steady()) > 0.0:
            raise BodyRefused(429, "too many bytes per second; send again later")

    async def _read(self, request: web.Request) -> bytes:
        try:
            return await self._reader.read(request.content, request.content_length)
        except (ConnectionError, aiohttp.ClientPayloadError, HttpProcessingError, web.RequestPayloadError):
            raise BodyRefused(400, "the body broke off") from None

    async def take(self, body: bytes, encoding: str, encoder: ModuleType) -> tuple[int, str]:
        """(spans left out, what to say about it). Nothing is taken of a body that cannot be read to its end, except
        that the collector behind gets it. Raises BodyRefused: 400, 413.
        """
        if self.forwarder is not None:
            self.forwarder.put(ForwardBody(body, encoder.CONTENT_TYPE, encoding))
        batches: list[Batch] = []
        held = 0
        cost = 2 * self._reader.most_bytes
        try:
            data = self._reader.decompressed(body, encoding)
            for batch in encoder.decode(data):
                held += len(batch.spans)
                if held <= MOST_SPANS_OF_A_BODY:
                    batches.append(batch)
                else:
                    self.counts.over_size += len(batch.spans)
                await asyncio.sleep(0)  # a large body is many small turns of the event loop
            cost = max(len(body), len(data))
        except UndecodableBody as error:
            raise BodyRefused(400, str(error)) from None
        finally:
            self._bytes.charge(cost, self._clock.steady())
        self.counts.bodies += 1
        left_out = max(0, held - sum(len(batch.spans) for batch in batches))
        return self._emit_all(batches, left_out)

    def _emit_all(self, batches: Sequence[Batch], left_out: int) -> tuple[int, str]:
        t = self._clock.wall()
        says = [f"{left_out} spans past {MOST_SPANS_OF_A_BODY} of one body"] if left_out else []
        malformed = over_rate = 0
        strangers: set[str] = set()
        for batch in batches:
            self.counts.others += batch.others
            malformed += batch.malformed
            if not batch.spans:
                continue
            target = self.names.of(batch.resource, len(batch.spans))
            if target is None:
                self.counts.unknown_service += len(batch.spans)
                strangers.add(str(batch.resource.get("service.name"))[:40])
                continue
            granted = self._spans.grant(len(batch.spans), self._clock.steady())
            over_rate += len(batch.spans) - granted
            if granted:
                self.counts.spans += granted
                self._emit(SpansObservation(t, target, tuple(batch.spans[:granted])))
        self.counts.malformed += malformed
        self.counts.over_rate += over_rate
        says += [f"{malformed} spans without usable times or values"] if malformed else []
        says += [f"{over_rate} spans over the rate"] if over_rate else []
        if strangers:
            says.append(f"service.name {min(strangers)!r} is no target: see traces.services")
        return left_out + malformed + over_rate, "; ".join(says)

    def _refusal(self, refused: BodyRefused, encoder: ModuleType) -> web.Response:
        headers = {}
        if refused.status in (429, 503):
            headers["Retry-After"] = str(max(1, math.ceil(self._bytes.wait_seconds(self._clock.steady()))))
        if refused.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        response = web.Response(
            status=refused.status,
            body=encoder.refusal(refused.message),
            content_type=encoder.CONTENT_TYPE,
            headers=headers,
        )
        if refused.status in (401, 408, 413, 429):
            response.force_close()  # the rest of the body is not waited for
        return response
