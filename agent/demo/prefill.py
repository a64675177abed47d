"""A prefill engine: prompts come in, first tokens go out, KV stays until decode has fetched it or its lease runs out.

One prompt is computed at a time, in order of arrival. It is computed in chunks, but nothing is counted before
the last chunk: a long prompt is one jump. KV of prompts that wait to be fetched can fill the cache; then nothing
starts.
"""

from __future__ import annotations

from collections import deque
from random import Random

from agent.demo.events import Events
from agent.demo.metrics import EngineMetrics
from agent.demo.requests import Request
from agent.demo.server import Server


class PrefillEngine:
    """Engine number `rank` of a server. `outstanding`: requests sent here that have not come back."""

    def __init__(self, server: Server, rank: int, events: Events, rng: Random) -> None:
        topology = server.topology
        self.server = server
        self.rank = rank
        self.metrics = EngineMetrics(topology.prefill.drafting.depth, topology.max_model_len)
        self.dead = False
        self.outstanding = 0
        self._events = events
        self._rng = rng
        self._topology = topology
        self._waiting: deque[Request] = deque()
        self._current: Request | None = None
        self._pinned: dict[int, Request] = {}
        self._used_tokens = 0

    def queue(self, t: float, request: Request) -> None:
        """A tokenized prompt reaches the engine."""
        if self.dead or request.gone:
            return
        self._waiting.append(request)
        self.metrics.stepped = True
        self._start(t)

    def drop(self, t: float, request: Request) -> None:
        """The client went away before the prefill was done: no trace of it stays in any metric."""
        self.outstanding -= 1
        if request is self._current:
            self._current = None
            self._used_tokens -= request.prompt_tokens
            self._start(t)
        elif request in self._waiting:
            self._waiting.remove(request)

    def release(self, t: float, request: Request) -> None:
        """Decode has fetched the KV, or nobody will: its blocks are free again."""
        if self._pinned.pop(request.number, None) is not None:
            self._used_tokens -= request.prompt_tokens
            self._start(t)

    def expire(self, t: float, request: Request) -> None:
        """The lease of a hand-over runs out; nothing happens when it was fetched before."""
        if not self.dead and request.number in self._pinned:
            request.lapsed = True
            self.metrics.counters["expired"] += 1
            self.release(t, request)

    def unfinished(self) -> list[Request]:
        """Prompts that are lost when the server ends now."""
        return [*([self._current] if self._current is not None else []), *self._waiting]

    def settle(self, _t: float) -> None:
        """Bring the gauges up to date for a page; counters always are."""
        gauges = self.metrics.gauges
        gauges["running"] = 0 if self._current is None else 1
        gauges["waiting"] = gauges["waiting_by_reason/capacity"] = len(self._waiting)
        gauges["kv_usage"] = self._used_tokens / self._topology.prefill.kv_tokens

    def _start(self, t: float) -> None:
        if self._current is not None or not self._waiting or self.dead:
            return
        request = self._waiting[0]
        if self._used_tokens + request.prompt_tokens > self._topology.prefill.kv_tokens:
            return
        self._waiting.popleft()
        self._current = request
        self._used_tokens += request.prompt_tokens
        request.prefill_scheduled = t
        counters = self.metrics.counters
        counters["prefix_queries"] += request.prompt_tokens
        counters["prefix_hits"] += request.cached_tokens
        counters["external_queries"] += request.prompt_tokens - request.cached_tokens
        counters["cached_source/device"] += request.cached_tokens
        self._events.at(t + self._seconds(request), self._done, request)

    def _seconds(self, request: Request) -> float:
        speed = self._topology.prefill_speed
        cached, whole = request.cached_tokens, request.prompt_tokens
        tokens = whole - cached
        # attention of the new tokens reaches back over the cached ones
        stretch = 1.0 + (whole + cached) / speed.doubling_tokens
        seconds = speed.overhead_seconds + tokens / speed.tokens_per_second * stretch
        return seconds * self.server.conditions.prefill_factor * self._rng.lognormvariate(0.0, speed.noise)

    def _done(self, t: float, request: Request) -> None:
        if self.dead or request is not self._current:
            return
        self._current = None
        self.outstanding -= 1
        self._pinned[request.number] = request
        request.prefill_done = t
        self._count(t, request)
        self.server.prefilled(t, request)
        self._start(t)

    def _count(self, t: float, request: Request) -> None:
        prompt, cached = request.prompt_tokens, request.cached_tokens
        counters, histograms = self.metrics.counters, self.metrics.histograms
        counters["prompt_tokens"] += prompt
        counters["prompt_source/local_compute"] += prompt - cached
        counters["prompt_source/local_cache_hit"] += cached
        counters["cached"] += cached
        counters["generated"] += 1
        counters["finished/length"] += 1
        leg = t - request.prefill_arrived
        prefill = t - request.prefill_scheduled
        histograms["prompt_length"].observe(prompt)
        histograms["completion_length"].observe(1)
        histograms["iteration_tokens"].observe(prompt - cached + 1)
        histograms["most_generated"].observe(1)
        histograms["n"].observe(1)
        histograms["max_tokens"].observe(1)
        histograms["ttft"].observe(leg)
        histograms["tpot"].observe(0.0)
        histograms["e2e"].observe(leg)
        histograms["queue"].observe(request.prefill_scheduled - request.prefill_queued)
        histograms["inference"].observe(prefill)
        histograms["prefill"].observe(prefill)
        histograms["decode"].observe(0.0)
        histograms["request_preemptions"].observe(0)
        histograms["computed_tokens"].observe(prompt - cached)
        self.server.http.answered(leg, 5 * prompt, 950)
