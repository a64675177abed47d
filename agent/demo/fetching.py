"""The KV pull of a decode engine. In: requests with room set aside. Out: `engine.fetched` when a transfer has ended.

The read takes latency plus size over bandwidth; a first contact with a prefill server adds a handshake. Only
completed reads are counted in NIXL's histograms.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from agent.demo.events import Events
from agent.demo.requests import Request

if TYPE_CHECKING:
    from agent.demo.decode import DecodeEngine


class Fetching:
    """Requests whose KV is on its way to one engine."""

    def __init__(self, engine: DecodeEngine, events: Events, rng: Random) -> None:
        self._engine = engine
        self._events = events
        self._rng = rng
        self._requests: dict[int, Request] = {}
        self._stalled: list[Request] = []
        self._known: set[tuple[str, int]] = set()

    def __len__(self) -> int:
        return len(self._requests)

    def requests(self) -> Iterable[Request]:
        return self._requests.values()

    def begin(self, t: float, request: Request) -> None:
        """Ask the prefill engine for the request's KV."""
        engine = self._engine
        counters = engine.metrics.counters
        counters["prefix_queries"] += request.prompt_tokens
        counters["external_queries"] += request.prompt_tokens
        counters["external_hits"] += request.prompt_tokens
        counters["cached_source/p2p"] += request.prompt_tokens
        self._requests[request.number] = request
        if engine.server.conditions.transfers_stall:
            self._stalled.append(request)
        else:
            self._read(t, request)

    def resume(self, t: float) -> None:
        """Begin the reads that had stalled."""
        stalled, self._stalled = self._stalled, []
        for request in stalled:
            if request.number in self._requests:
                self._read(t, request)

    def give_up(self, request: Request) -> bool:
        """Forget a request; False when it is not fetching."""
        return self._requests.pop(request.number, None) is not None

    def finish(self, t: float, request: Request) -> bool:
        """Count a read that has ended; False when nobody waits for it any more."""
        if self._requests.pop(request.number, None) is None:
            return False
        counters, histograms = self._engine.metrics.counters, self._engine.metrics.histograms
        source = request.prefill_engine
        assert source is not None
        if source.dead:
            request.fails = True
        if request.fails:
            counters["failed_transfers"] += 1
            request.reason = "error"
        else:
            histograms["transfer"].observe(request.transfer_seconds)
            histograms["post"].observe(0.0004 + 2e-9 * request.prompt_tokens)
            histograms["transfer_bytes"].observe(request.transfer_bytes)
            blocks = -(-request.prompt_tokens // self._engine.server.topology.block_tokens)
            histograms["descriptors"].observe(blocks)
            if request.lapsed:
                source.metrics.counters["after_expiry"] += 1
        source.release(t, request)
        return True

    def _read(self, t: float, request: Request) -> None:
        conditions, transfer = self._engine.server.conditions, self._engine.server.topology.transfer
        rng, source = self._rng, request.prefill_engine
        assert source is not None
        request.transfer_bytes = request.prompt_tokens * transfer.bytes_per_token
        seconds = transfer.latency_seconds + request.transfer_bytes / transfer.bytes_per_second
        noise = rng.lognormvariate(0.0, transfer.noise)
        # NIXL counts whole microseconds
        request.transfer_seconds = round(seconds * conditions.transfer_factor * noise, 6)
        wait = request.transfer_seconds + transfer.poll_seconds
        contact = (source.server.name, source.server.lives)
        if contact not in self._known:
            self._known.add(contact)
            wait += transfer.handshake_seconds
        if rng.random() < conditions.lapse_share:
            self._events.at(t + 0.5 * wait, source.expire, request)
            request.fails = rng.random() < conditions.lapse_fails_share
        if rng.random() < conditions.fail_share:
            request.fails = True
        self._events.at(t + wait, self._engine.fetched, request)
