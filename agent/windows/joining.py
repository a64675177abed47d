"""Legs become requests: legs come in one by one in any order, whole requests go out, in bounded memory.

Two legs belong together when they have the same trace id and the same request id, or one of the two, and the same
number of prompt tokens, and times that fit. A request is given out as soon as it is whole; a leg that comes later and
changes it (an earlier attempt at prefill) gives it out again, together with what it takes the place of.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from agent.windows.joined_request import Dispatch, Request, joined_request, request_of_one_leg
from agent.windows.leg_index import LegIndex
from agent.windows.span_legs import Leg, request_core

HANDOVER_AT_MOST_SECONDS = 600.0
RETRY_AFTER_AT_MOST_SECONDS = 60.0
"""A later attempt at prefill begins within this time after the one before ended; later, an id was used again."""
CLOCKS_APART_SECONDS = 5.0
"""Two hosts' clocks may differ by so much before legs no longer fit by one id alone."""
CLOCKS_APART_WITH_BOTH_IDS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class JoiningLimits:
    """What is kept at most. A prefill leg waits as long as its decode leg may run; a decode leg for a late export."""

    waiting: int = 50_000
    done: int = 8_000
    prefill_wait_seconds: float = 3600.0
    decode_wait_seconds: float = 120.0
    done_seconds: float = 300.0


@dataclass(slots=True)
class JoiningCounts:
    """What became of the legs, since the start.

    `unmatched_*`: waited in vain; `failed_*`: recognised failures; `left_unserved`: prefill legs whose decode leg
    failed; `extra_decode`: more decode legs of one request (n > 1); `unsaid`: a decode leg without its TTFT.
    """

    joined: int = 0
    alone: int = 0
    retried: int = 0
    corrected: int = 0
    skewed: int = 0
    ambiguous: int = 0
    failed_prefill: int = 0
    failed_decode: int = 0
    left_unserved: int = 0
    extra_decode: int = 0
    unsaid: int = 0
    unmatched_prefill: int = 0
    unmatched_decode: int = 0
    dropped: int = 0

    def as_mapping(self) -> dict[str, int]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


class Joined(NamedTuple):
    """`instead_of`: the same request as it was given out before."""

    request: Request
    instead_of: Request | None = None


@dataclass(slots=True, eq=False)
class Record:
    """The legs of one request that have come so far; prefill legs in order of their starts."""

    arrived: float
    prefill: list[Leg] = field(default_factory=list)
    decode: Leg | None = None
    request: Request | None = None
    decode_failed: bool = False


class Joining:
    """Pure and bounded; `now` is when a leg arrived, in any order that does not go far back."""

    def __init__(self, dispatch: Dispatch = "serial", limits: JoiningLimits | None = None) -> None:
        self.counts = JoiningCounts()
        self._dispatch = dispatch
        self._limits = limits or JoiningLimits()
        self._index = LegIndex[Record]()
        self._waiting_prefill: OrderedDict[Record, None] = OrderedDict()
        self._waiting_decode: OrderedDict[Record, None] = OrderedDict()
        self._done: OrderedDict[Record, None] = OrderedDict()
        self._looked = float("-inf")

    @property
    def waiting(self) -> int:
        """Records that wait for their other leg."""
        return len(self._waiting_prefill) + len(self._waiting_decode)

    def take(self, leg: Leg, at: float, now: float) -> Joined | None:
        """The request that this leg completes or corrects, if any. `at`: when the leg ended, on pdwatch's clock."""
        joined = self._take(leg, at, now)
        if abs(now - self._looked) >= 1.0 or self.waiting > self._limits.waiting:
            self.expire(now)
        return joined

    def _take(self, leg: Leg, at: float, now: float) -> Joined | None:
        if leg.role == "prefill":
            return self._take_prefill(leg, now)
        if leg.fault is not None:
            self.counts.failed_decode += 1
            self._note_failed_decode(leg)
            return None
        if leg.role == "both":
            request = request_of_one_leg(leg, at)
            self.counts.alone += request is not None
            self.counts.unsaid += request is None
            return None if request is None else Joined(request)
        return self._take_decode(leg, at, now)

    def expire(self, now: float) -> None:
        """Gives up what has waited too long, and forgets requests that nothing can change any more."""
        self._looked = now
        limits = self._limits
        for record in _older(self._waiting_prefill, now - limits.prefill_wait_seconds):
            self._give_up(record)
        for record in _older(self._waiting_decode, now - limits.decode_wait_seconds):
            self._give_up(record)
        for record in _older(self._done, now - limits.done_seconds):
            self._forget(record)
        while len(self._done) > limits.done:
            self._forget(self._done.popitem(last=False)[0])
        while self.waiting > limits.waiting:
            oldest = self._waiting_prefill or self._waiting_decode
            self._forget(oldest.popitem(last=False)[0])
            self.counts.dropped += 1

    def shift(self, seconds: float) -> None:
        """The clock by which legs arrive was set."""
        for records in (self._waiting_prefill, self._waiting_decode, self._done):
            for record in records:
                record.arrived += seconds

    # -- prefill legs --------------------------------------------------------------------------------------

    def _take_prefill(self, leg: Leg, now: float) -> Joined | None:
        self.counts.failed_prefill += leg.fault is not None
        record = self._record_for_prefill(leg)
        if record is None:
            record = Record(now, [leg])
            self._waiting_prefill[record] = None
            self._remember(leg, record)
            return None
        record.prefill.append(leg)
        record.prefill.sort(key=lambda each: each.span.start)
        self._remember(leg, record)
        if record.decode is None:
            return None
        before = record.request
        at = record.decode.span.end if before is None else before.at
        return self._completed(record, at, now)

    def _record_for_prefill(self, leg: Leg) -> Record | None:
        fitting: list[tuple[float, Record]] = []
        for record, same_trace, same_id in self._candidates(leg):
            # What begins after the decode leg is no attempt of its request: somebody used the id again.
            in_time = record.decode is None or leg.span.start <= record.decode.span.start
            if same_id and in_time and any(_follow(leg, other) for other in record.prefill):
                return record
            if record.decode is not None and not record.prefill:
                apart = self._time_apart(leg, record.decode, same_trace and same_id)
                if apart is not None:
                    fitting.append((apart, record))
        return self._best(fitting)

    # -- decode legs ---------------------------------------------------------------------------------------

    def _take_decode(self, leg: Leg, at: float, now: float) -> Joined | None:
        fitting = []
        sibling = None
        for record, same_trace, same_id in self._candidates(leg):
            if record.decode is not None:
                if same_id and abs(record.decode.span.start - leg.span.start) <= CLOCKS_APART_SECONDS:
                    sibling = record
                continue
            both = same_trace and same_id
            apart = [self._time_apart(each, leg, both) for each in record.prefill if each.fault is None]
            known = [value for value in apart if value is not None]
            if known:
                fitting.append((min(known) - (1e6 if both else 1e5 if same_trace else 0.0), record))
        best = self._best(fitting)
        if best is None and sibling is not None:
            self.counts.extra_decode += 1
            return None
        if best is None:
            alone = Record(now, decode=leg)
            self._waiting_decode[alone] = None
            self._remember(leg, alone)
            return None
        best.decode = leg
        self._remember(leg, best)
        return self._completed(best, at, now)

    def _note_failed_decode(self, leg: Leg) -> None:
        for record, _, same_id in self._candidates(leg):
            if same_id and record.decode is None:
                record.decode_failed = True

    # -- both ----------------------------------------------------------------------------------------------

    def _completed(self, record: Record, at: float, now: float) -> Joined | None:
        assert record.decode is not None
        attempts = [leg for leg in record.prefill if self._time_apart(leg, record.decode, True) is not None]
        request = joined_request(attempts, record.decode, self._dispatch, at) if attempts else None
        if request is None:
            self._drop_unsaid(record)
            return None
        before, record.request = record.request, request
        if before is None:
            self._waiting_prefill.pop(record, None)
            self._waiting_decode.pop(record, None)
            self._done[record] = None
            record.arrived = now
            self.counts.joined += 1
            self.counts.skewed += request.skewed
            self.counts.retried += request.attempts > 1
            return Joined(request)
        if before == request:
            return None
        self.counts.corrected += 1
        self.counts.retried += before.attempts == 1 and request.attempts > 1
        return Joined(request, before)

    def _drop_unsaid(self, record: Record) -> None:
        """A decode leg without its TTFT joins nothing; one whose only attempt failed goes on waiting."""
        if record.decode is not None and record.decode.span.ttft_seconds is None:
            self.counts.unsaid += 1
            self._waiting_prefill.pop(record, None)
            self._waiting_decode.pop(record, None)
            self._forget(record)

    def _time_apart(self, prefill: Leg, decode: Leg, both_ids: bool) -> float | None:
        """How far the decode leg's start is from the prefill leg's end; None when the two cannot belong together."""
        tolerance = CLOCKS_APART_WITH_BOTH_IDS_SECONDS if both_ids else CLOCKS_APART_SECONDS
        apart = decode.span.start - prefill.span.end
        if self._dispatch == "serial":
            fits = -tolerance <= apart
        else:
            fits = decode.span.start >= prefill.span.start - tolerance and decode.span.end >= prefill.span.end
        return abs(apart) if fits and apart <= HANDOVER_AT_MOST_SECONDS else None

    def _candidates(self, leg: Leg) -> Iterator[tuple[Record, bool, bool]]:
        """(record, has the same trace, has the same request id) of all that could belong to this leg."""
        span, core = leg.span, request_core(leg.span.request)
        for record in self._index.like(span.trace, core):
            other = (record.decode or record.prefill[0]).span
            if span.prompt_tokens is None or other.prompt_tokens in (None, span.prompt_tokens):
                legs = [*record.prefill, *([record.decode] if record.decode else [])]
                same_trace = bool(span.trace) and any(each.span.trace == span.trace for each in legs)
                same_id = bool(core) and any(request_core(each.span.request) == core for each in legs)
                yield record, same_trace, same_id

    def _best(self, fitting: list[tuple[float, Record]]) -> Record | None:
        if not fitting:
            return None
        fitting.sort(key=lambda each: each[0])
        best = fitting[0]
        if len(fitting) > 1 and fitting[1][0] - best[0] < 1e4:
            self.counts.ambiguous += 1
        return best[1]

    def _remember(self, leg: Leg, record: Record) -> None:
        self._index.add(leg.span.trace, request_core(leg.span.request), record)

    def _give_up(self, record: Record) -> None:
        if record.decode is not None:
            self.counts.unmatched_decode += 1
        elif record.decode_failed:
            self.counts.left_unserved += 1
        elif any(leg.fault is None for leg in record.prefill):
            self.counts.unmatched_prefill += 1
        self._forget(record)

    def _forget(self, record: Record) -> None:
        for leg in (*record.prefill, *([record.decode] if record.decode else [])):
            self._index.remove(leg.span.trace, request_core(leg.span.request), record)


def _follow(leg: Leg, other: Leg) -> bool:
    """Whether one of two prefill legs is a new attempt after the other."""
    first, second = (leg.span, other.span) if leg.span.start <= other.span.start else (other.span, leg.span)
    return -1.0 <= second.start - first.end <= RETRY_AFTER_AT_MOST_SECONDS


def _older(records: OrderedDict[Record, None], than: float) -> Iterable[Record]:
    """Takes out the records that arrived before `than`; they lie in order of arrival."""
    while records:
        record = next(iter(records))
        if record.arrived >= than:
            return
        del records[record]
        yield record
