"""What really happened. In: a fleet and a stretch of time. Out: exact counts and means over its requests and steps.

Worked out from the requests' own times and the engines' steps, never from what the pages count, so that one can
be held against the other. Everything is told by the moment at which a server counts it: in (since, until].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.demo.fleet import Fleet
from agent.demo.requests import Request

Moments = float | Mapping[str, float]
"""One moment for all servers, or one for each by name (the last scrape of each, say)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one kind, ascending, in seconds."""

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """None without values."""
        return sum(self.values) / len(self.values) if self.values else None

    def quantile(self, q: float) -> float | None:
        """The smallest value with at least the share `q` of all at or below it."""
        if not self.values:
            return None
        index = max(0, -int(-q * len(self.values) // 1) - 1)
        return self.values[min(index, len(self.values) - 1)]


@dataclass(frozen=True, slots=True)
class Truth:
    """One stretch of time. Failed requests are in `decode_ttft`, as vLLM counts them, and in `finished` alone."""

    prefill_ttft: Sample
    """Prefill legs that ended, arrival to first token; their e2e is the same."""
    prefill_queue: Sample
    prefill_time: Sample
    decode_ttft: Sample
    """Decode legs with their first token, arrival at decode to first token."""
    decode_queue: Sample
    """Of finished requests, as the next ones; without the failed."""
    decode_time: Sample
    decode_e2e: Sample
    tpot: Sample
    """Of finished requests with more than one token."""
    user_ttft: Sample
    """From the user's arrival to the first decode token, the proxy's time included."""
    transfer: Sample
    transfer_bytes: int
    finished: Mapping[str, int]
    """Decode legs that ended, by reason."""
    steps: int
    """Steps after the first token, over all requests: each is one inter-token latency."""
    step_seconds: float
    tokens_after_first: int
    accepted_by_position: tuple[int, ...]
    padded_drafts: int

    @property
    def tpot_token_mean(self) -> float | None:
        """Decoding time per token after the first, over all tokens of the time."""
        return self.step_seconds / self.tokens_after_first if self.tokens_after_first else None

    @property
    def accepted(self) -> int:
        return sum(self.accepted_by_position)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per verify step, padded drafts left out."""
        return 1 + self.accepted / self.steps if self.steps else None

    @property
    def composed_ttft_mean(self) -> float | None:
        """Mean of the prefill legs plus mean of the decode legs: what pages alone can tell."""
        first, second = self.prefill_ttft.mean, self.decode_ttft.mean
        return None if first is None or second is None else first + second


def truth(fleet: Fleet, since: Moments, until: Moments) -> Truth:
    """What happened in (since, until]; the fleet must remember that far back.

    What a server did between its last scrape and its restart is in here and can be on no page.
    """
    span = _Span(since, until)
    steps = _Steps(fleet)
    prefill: list[Request] = []
    first: list[Request] = []
    failed: list[Request] = []
    ended: list[Request] = []
    moved: list[Request] = []
    for request in fleet.requests:
        if request.prefill_engine is not None and span.holds(request.prefill_done, request.prefill_engine.server.name):
            prefill.append(request)
        engine = request.decode_engine
        if engine is None:
            continue
        name = engine.server.name
        if span.holds(request.fetch_ended, name):
            (failed if request.fails else moved).append(request)
        if request.first_token is None:
            continue
        if span.holds(request.first_token, name):
            first.append(request)
        if span.holds(request.last_token, name):
            ended.append(request)
        steps.add(request, span.since(name), span.until(name))
    decode_legs = [_leg(r.decode_arrived, r.first_token) for r in first]
    decode_legs += [_leg(r.decode_arrived, r.fetch_ended) for r in failed]
    reasons: dict[str, int] = {}
    for request in [*ended, *failed]:
        reasons[request.reason] = reasons.get(request.reason, 0) + 1
    return Truth(
        prefill_ttft=_sample(_leg(r.prefill_arrived, r.prefill_done) for r in prefill),
        prefill_queue=_sample(r.prefill_scheduled - r.prefill_queued for r in prefill),
        prefill_time=_sample(_leg(r.prefill_scheduled, r.prefill_done) for r in prefill),
        decode_ttft=_sample(decode_legs),
        decode_queue=_sample(r.decode_scheduled - r.decode_queued for r in ended),
        decode_time=_sample(_leg(r.first_token or 0.0, r.last_token) for r in ended),
        decode_e2e=_sample(_leg(r.decode_arrived, r.last_token) for r in ended),
        tpot=_sample(tpot for r in ended if (tpot := r.tpot_seconds) is not None),
        user_ttft=_sample(ttft for r in first if (ttft := r.user_ttft_seconds) is not None),
        transfer=_sample(r.transfer_seconds for r in moved),
        transfer_bytes=sum(r.transfer_bytes for r in moved),
        finished=reasons,
        steps=steps.count,
        step_seconds=steps.seconds,
        tokens_after_first=steps.tokens,
        accepted_by_position=tuple(steps.accepted),
        padded_drafts=len(first),
    )


class _Span:
    """A stretch of time that may lie differently for each server."""

    def __init__(self, since: Moments, until: Moments) -> None:
        self._since, self._until = since, until

    def since(self, server: str) -> float:
        return self._since[server] if isinstance(self._since, Mapping) else self._since

    def until(self, server: str) -> float:
        return self._until[server] if isinstance(self._until, Mapping) else self._until

    def holds(self, t: float | None, server: str) -> bool:
        return t is not None and self.since(server) < t <= self.until(server)


class _Steps:
    """Steps, their time, and what they gave, added up over requests."""

    def __init__(self, fleet: Fleet) -> None:
        self.count = 0
        self.seconds = 0.0
        self.tokens = 0
        self.accepted = [0] * fleet.topology.decode.drafting.depth

    def add(self, request: Request, since: float, until: float) -> None:
        """What a request with a first token gained between two moments."""
        engine, first_token = request.decode_engine, request.first_token
        assert engine is not None
        assert first_token is not None
        if until <= first_token or (request.last_token is not None and request.last_token <= since):
            return
        clock = engine.clock
        after_first = request.first_step + 1
        whole = request.ends_after_step
        begin = after_first if since <= first_token else min(clock.step_at(since), whole)
        end = whole if request.last_token is not None and request.last_token <= until else clock.step_at(until)
        end = min(end, whole)
        if end <= begin:
            return
        self.count += end - begin
        self.seconds += clock.busy_seconds(end) - clock.busy_seconds(begin)
        tokens_before, accepted_before = request.progress(begin)
        tokens, accepted = request.progress(end)
        self.tokens += tokens - tokens_before
        for position, (before, after) in enumerate(zip(accepted_before, accepted, strict=True)):
            self.accepted[position] += after - before


def _leg(begin: float, end: float | None) -> float:
    assert end is not None
    return end - begin


def _sample(values: Iterable[float]) -> Sample:
    return Sample(tuple(sorted(values)))
