"""All requests that were traced: observations of spans come in, what they say about a window goes out.

Spans become legs by the pool of their target, legs become requests, and both are added up by time. The same span sent
twice counts once. Pure and bounded; `now` of everything is the observation's `t`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from agent.config import Config
from agent.errors import StateError
from agent.indicators.requests.exemplars import Exemplars
from agent.indicators.requests.lags import Lags
from agent.indicators.requests.samples import Promise, leg_sample, request_samples
from agent.indicators.requests.saved import slot_document, slot_key, slot_of
from agent.indicators.requests.slots import Covered, Slots, add_sums, width_at
from agent.indicators.requests.view import SpansView
from agent.model import Span, SpansObservation
from agent.windows.joined_request import Request
from agent.windows.joining import Joining, JoiningLimits
from agent.windows.span_legs import LegRole, leg_of

CLOCK_TRUSTED_SECONDS = 60.0
"""A span's end further than this from its arrival was stamped by a clock that is wrong: its arrival counts instead."""
MOST_SEEN = 50_000
MOST_PAIRS = 256
OTHER_PAIR = ("other", "other")
MOST_UNKNOWN_TARGETS = 100
VERSION = 1


class Requests:
    """`config` gives roles by target and by pool, the dispatch, the contract's prompt lengths and what is promised."""

    def __init__(self, config: Config, limits: JoiningLimits | None = None) -> None:
        self.joining = Joining(config.dispatch, limits)
        self.duplicates = 0
        self.unknown_targets: Counter[str] = Counter()
        """Spans by a target that is neither a target nor a pool of the configuration."""
        self.faults: Counter[str] = Counter()
        """Legs that failed, by what shows it."""
        self.began: float | None = None
        """When the first span arrived in this run; what came before it was not seen."""
        self.exemplars = Exemplars()
        """Legs to show for the buckets of the pools' histograms; they do not survive a restart."""
        self._promise = _promise(config)
        self._places = _places(config)
        self._slots = Slots()
        self._lags = Lags()
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._pairs: set[tuple[str, str]] = set()

    def retarget(self, config: Config) -> None:
        """Takes spans for another configuration from now on; what was taken before stays as it was."""
        self._promise, self._places = _promise(config), _places(config)

    def take(self, observation: SpansObservation) -> None:
        """Takes spans that arrived together. Never raises for what they hold."""
        place = self._places.get(observation.target)
        if place is None:
            if observation.target in self.unknown_targets or len(self.unknown_targets) < MOST_UNKNOWN_TARGETS:
                self.unknown_targets[observation.target] += len(observation.spans)
            return
        if self.began is None:
            self.began = observation.t
        role, pool = place
        for span in observation.spans:
            self._take_span(span, role, pool, observation.target, observation.t)

    def _take_span(self, span: Span, role: LegRole, pool: str, target: str, t: float) -> None:
        if self._seen_before(span, target):
            self.duplicates += 1
            return
        self._lags.take(t, span.end)
        leg = leg_of(span, role, pool, target)
        at = span.end if abs(span.end - t) <= CLOCK_TRUSTED_SECONDS else t
        if leg.fault is None:
            sample = leg_sample(leg, at, self._promise)
            self._slots.slot(at).add(sample)
            self.exemplars.take(leg, at)
        else:
            self.faults[leg.fault] += 1
        joined = self.joining.take(leg, at, t)
        if joined is None:
            return
        if joined.instead_of is not None:
            self._remove(joined.instead_of)
        self._add(joined.request)

    def _add(self, request: Request) -> None:
        slot = self._slots.slot(request.at)
        for sample in request_samples(request, self._promise, self._pair(request)):
            slot.add(sample)
        slot.remember(request)

    def _remove(self, request: Request) -> None:
        slot = self._slots.slot(request.at)
        for sample in request_samples(request, self._promise, self._pair(request)):
            slot.remove(sample)
        slot.slowest = [each for each in slot.slowest if each != request]

    def _pair(self, request: Request) -> tuple[str, str] | None:
        if not request.prefill:
            return None
        pair = (request.prefill, request.decode)
        if pair not in self._pairs:
            if len(self._pairs) >= MOST_PAIRS:
                return OTHER_PAIR
            self._pairs.add(pair)
        return pair

    def _seen_before(self, span: Span, target: str) -> bool:
        # Start and end are measured to the nanosecond: two requests do not share both.
        key = hash((span.trace, span.request, span.start, span.end, target))
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)
        return False

    def system(self, since: float, until: float) -> SpansView:
        """What the spans that ended in (since, until] say."""
        self.joining.expire(until)
        return SpansView(self._slots.since(since, until))

    def edges(self, since: float, until: float, page_seconds: float) -> SpansView:
        """Spans of (since, until] that another clock may count outside: near its two ends.

        How near: `page_seconds`, by which the pages' window may differ, and what clocks and exports displace.
        """
        near = page_seconds + self._lags.longest(since)
        both = Covered(since, until)
        for begin, end in ((since, since + near), (until - near, until)):
            covered = self._slots.since(begin, end)
            if covered.since > begin or covered.until < end:  # rounded to slots: rather too many
                width = width_at(until - begin)
                covered = self._slots.since(begin - width, end + width)
            add_sums(both.sums, covered.sums)
        return SpansView(both)

    def counts(self) -> Mapping[str, int]:
        """What became of the legs since the start, by the names of docs/traces.md."""
        return {
            **self.joining.counts.as_mapping(),
            "waiting": self.joining.waiting,
            "duplicates": self.duplicates,
            "unknown_target": sum(self.unknown_targets.values()),
        }

    def shift(self, seconds: float) -> None:
        """The wall clock was set by so much."""
        self._slots.shift(seconds)
        self.joining.shift(seconds)
        self.exemplars.shift(seconds)
        self._lags.shift(seconds)
        if self.began is not None:
            self.began += seconds

    # -- what survives a restart -----------------------------------------------------------------------------

    def save(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, document) of every slot that changed since the last call. Legs that wait are not kept."""
        for slot in self._slots.all():
            if slot.changed:
                slot.changed = False
                yield slot_key(slot.start, slot.width), {"version": VERSION, **slot_document(slot)}

    def obsolete(self, key: str) -> bool:
        """True for the key of a slot that was added into a wider one or has grown too old."""
        parts = key.split("/")
        if parts[:2] != ["requests", "slot"] or len(parts) != 4:
            return False
        return not self._slots.holds(float(parts[3]), float(parts[2]))

    def restore(self, documents: Mapping[str, dict[str, Any]]) -> None:
        """Takes saved slots up again. Raises StateError when they are damaged or of another version."""
        try:
            for key, document in documents.items():
                if key.startswith("requests/"):
                    if document["version"] != VERSION:
                        raise StateError(f"saved history {key} has version {document['version']}, not {VERSION}")
                    self._slots.put(slot_of(document))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise StateError(f"saved history is damaged ({error!r}); remove it to begin anew") from error


def _promise(config: Config) -> Promise:
    """The objectives for single requests: TTFT of the system and TPOT of whoever decodes."""
    decoding = {pool.name for pool in config.pools if pool.role in ("decode", "both")}
    ttft = [each.target for each in config.objectives if each.indicator == "ttft" and each.scope == "system"]
    tpot = [each.target for each in config.objectives if each.indicator == "tpot" and each.scope in decoding]
    return Promise(config.contract.prompt_tokens, min(ttft, default=None), min(tpot, default=None))


def _places(config: Config) -> dict[str, tuple[LegRole, str]]:
    """Target or pool -> role and pool. A pool's name stands for spans that do not say which of its targets it was."""
    places: dict[str, tuple[LegRole, str]] = {}
    for pool in config.pools:
        places[pool.name] = (pool.role, pool.name)
    for pool in config.pools:
        for target in pool.targets:
            places[target.name] = (pool.role, pool.name)
    return places
