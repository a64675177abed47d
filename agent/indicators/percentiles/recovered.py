"""Recovered distributions over the long run: certain intervals come in, evidence by time and fine histograms go out.

Per pool and family: evidence in slots of five minutes for six hours and of an hour for three days (for percentile
objectives over long windows), and a histogram with fine edges that only ever grows, which any Prometheus can merge over
thousands of agents. Observations are spread over the fine edges once a minute, by the density of the minutes before,
and then never moved again, so that the exported counters stay monotonic whatever is learned later. Records are added
to one small evidence as they come, which joins the slots when one of them is asked for, ends, or is spread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.errors import StateError
from agent.indicators.percentiles.evidence import Evidence
from agent.indicators.percentiles.pairing import Pairing, feed
from agent.indicators.percentiles.reader import Percentiles
from agent.indicators.percentiles.windows import interval_steps
from agent.model import Role
from agent.windows.interval import Interval

FOLLOWED = frozenset({"ttft", "tpot", "kv_transfer_time"})
"""Families that are recovered: what the objectives promise and what the hand-over takes."""
FINE_SLOT_SECONDS, FINE_SLOTS = 300.0, 72
COARSE_SLOT_SECONDS, COARSE_SLOTS = 3600.0, 72
SPREAD_EVERY_SECONDS = 60.0
LEARN_FROM_SECONDS = 900.0
LEARN_EVERY_SECONDS = 60.0
"""A density costs a tenth of a second and is a quarter of an hour's: it is learned anew this often, and while it is
young each time its observations have doubled. What is placed by it brings its own sums along."""
EDGE_RATIO = 1.1
FINE_RANGE: Mapping[str, tuple[float, float]] = {
    "ttft": (0.05, 60.0),
    "tpot": (0.002, 0.5),
    "kv_transfer_time": (0.002, 5.0),
}
"""Metric -> seconds between which the fine edges stand `EDGE_RATIO` apart; outside, the page's own edges remain."""


Family = tuple[str, str]
"""(pool, metric)."""


@dataclass(slots=True)
class FineHistogram:
    """Observations since pdwatch began, on fine edges; `total` is their sum where it is known for all of them."""

    edges: tuple[float, ...]
    counts: list[float]
    total: float = 0.0
    unsummed: int = 0


@dataclass(slots=True)
class _Followed:
    edges: tuple[float, ...]
    fine: deque[tuple[float, Evidence]] = field(default_factory=deque)
    coarse: deque[tuple[float, Evidence]] = field(default_factory=deque)
    fresh: tuple[float, Evidence] | None = None
    """What is not in the slots yet, and the start of the fine slot that it belongs to."""
    waiting: Evidence | None = None
    """What is in the slots and not on the fine edges yet."""
    histogram: FineHistogram | None = None
    learned: Percentiles | None = None
    learned_at: float = float("-inf")
    spread_at: float = float("-inf")


class Recovered:
    """`targets`: metric -> objective targets, which become edges and thresholds known exactly."""

    def __init__(self, targets: Mapping[str, tuple[float, ...]]) -> None:
        self._targets = targets
        self._families: dict[Family, _Followed] = {}
        self._pairings: dict[tuple[str, str, str, tuple[float, ...]], Pairing] = {}
        self._owed: dict[tuple[str, str, str, tuple[float, ...]], dict[int, int]] = {}

    def take(self, pool: str, target: str, interval: Interval, metrics: frozenset[str] = FOLLOWED) -> None:
        """Adds an interval that is certain. Intervals of one target come in time order; other metrics are left out."""
        for engine in interval.restarted:
            self._flush(pool, target, engine, interval.end)
        for engine, metric, edges, (counts, total) in interval_steps(interval, metrics):
            family = self._families.setdefault((pool, metric), _Followed(edges))
            if family.edges != edges:
                continue  # the pool's first layout is followed; others are in the plain histograms all the same
            key = (target, engine, metric, edges)
            pairing = self._pairings.setdefault(key, Pairing(edges))
            records = pairing.push(_settled(counts, self._owed.setdefault(key, {})), total)
            if records:
                feed(self._fresh(family, metric, interval.end), records)
        for (of_pool, metric), family in self._families.items():
            if of_pool == pool and interval.end >= family.spread_at + SPREAD_EVERY_SECONDS:
                self._spread(family, metric, interval.end)

    def keep_targets(self, targets: frozenset[str]) -> None:
        """Forgets what is held of targets that are no longer watched; their observations stay in the pool's."""
        self._pairings = {key: pairing for key, pairing in self._pairings.items() if key[0] in targets}
        self._owed = {key: owed for key, owed in self._owed.items() if key[0] in targets}

    def histograms(self) -> Iterator[tuple[str, str, FineHistogram]]:
        """(pool, metric, histogram) of everything that was recovered."""
        for (pool, metric), family in self._families.items():
            if family.histogram is not None:
                yield pool, metric, family.histogram

    def over(self, pool: str, metric: str, window_seconds: float, now: float) -> Percentiles | None:
        """Percentiles over a long window, from the slots that overlap it; None without evidence."""
        family = self._families.get((pool, metric))
        if family is None:
            return None
        self._settle(family, metric)
        reach = FINE_SLOT_SECONDS * FINE_SLOTS
        slots, width = (
            (family.fine, FINE_SLOT_SECONDS) if window_seconds <= reach else (family.coarse, COARSE_SLOT_SECONDS)
        )
        total = self._new(family, metric)
        for start, evidence in slots:
            if start + width > now - window_seconds and start < now:
                total.merge(evidence)
        return Percentiles(total) if total.count else None

    def shift(self, seconds: float) -> None:
        """Moves the slots in time by whole slots, after the clock was set."""
        for (_, metric), family in self._families.items():
            self._settle(family, metric)
            for slots, width in ((family.fine, FINE_SLOT_SECONDS), (family.coarse, COARSE_SLOT_SECONDS)):
                whole = round(seconds / width) * width
                moved = [(start + whole, evidence) for start, evidence in slots]
                slots.clear()
                slots.extend(moved)
            family.spread_at += seconds
            family.learned_at += seconds

    def saved(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, document) of each family."""
        for (pool, metric), family in self._families.items():
            self._settle(family, metric)
            yield (
                f"recovered/{pool}/{metric}",
                {
                    "edges": list(family.edges),
                    "fine": [[start, evidence.to_json()] for start, evidence in family.fine],
                    "coarse": [[start, evidence.to_json()] for start, evidence in family.coarse],
                    "histogram": _histogram_document(family.histogram),
                },
            )

    def restore(self, documents: Mapping[str, dict[str, Any]]) -> None:
        """Takes saved families up again. Raises StateError when they are damaged."""
        try:
            for key, document in documents.items():
                if key.startswith("recovered/"):
                    _, pool, metric = key.split("/")
                    family = _Followed(tuple(document["edges"]))
                    for name, slots in (("fine", family.fine), ("coarse", family.coarse)):
                        slots.extend((float(start), Evidence.from_json(data)) for start, data in document[name])
                    saved = document["histogram"]
                    if saved is not None:
                        family.histogram = FineHistogram(tuple(saved["edges"]), *saved["values"])
                    self._families[pool, metric] = family
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"saved distributions are damaged ({error!r}); remove them to begin anew") from error

    def _fresh(self, family: _Followed, metric: str, t: float) -> Evidence:
        """Where an observation of the moment `t` is added."""
        start = t - t % FINE_SLOT_SECONDS
        if family.fresh is not None and family.fresh[0] < start:
            self._settle(family, metric)
        if family.fresh is None:
            family.fresh = start, self._new(family, metric)
        return family.fresh[1]

    def _settle(self, family: _Followed, metric: str) -> None:
        """Brings the slots up to date."""
        if family.fresh is None:
            return
        (t, evidence), family.fresh = family.fresh, None
        for slots, width, most in (
            (family.fine, FINE_SLOT_SECONDS, FINE_SLOTS),
            (family.coarse, COARSE_SLOT_SECONDS, COARSE_SLOTS),
        ):
            start = t - t % width
            if not slots or slots[-1][0] < start:
                slots.append((start, self._new(family, metric)))
                while len(slots) > most:
                    slots.popleft()
            slots[-1][1].merge(evidence)
        if family.waiting is None:
            family.waiting = evidence
        else:
            family.waiting.merge(evidence)

    def _new(self, family: _Followed, metric: str) -> Evidence:
        return Evidence(family.edges, self._targets.get(metric, ()))

    def _spread(self, family: _Followed, metric: str, t: float) -> None:
        """Places what has come since the last time on the fine edges."""
        family.spread_at = t
        self._settle(family, metric)
        waiting, family.waiting = family.waiting, None
        if waiting is None or not waiting.count:
            return
        if family.histogram is None:
            edges = fine_edges(metric, family.edges, self._targets.get(metric, ()))
            family.histogram = FineHistogram(edges, [0.0] * (len(edges) + 1))
        histogram = family.histogram
        learned = self._learned(family, metric, t)
        for bucket, count in enumerate(learned.fine_counts(histogram.edges, of=waiting)):
            histogram.counts[bucket] += max(0.0, count)
        histogram.total += waiting.sum
        histogram.unsummed += sum(waiting.unsummed)

    def _learned(self, family: _Followed, metric: str, t: float) -> Percentiles:
        """The density by which observations of the moment `t` are placed."""
        slots = [evidence for start, evidence in family.fine if start + FINE_SLOT_SECONDS > t - LEARN_FROM_SECONDS]
        known = family.learned
        if (
            known is None
            or t >= family.learned_at + LEARN_EVERY_SECONDS
            or sum(evidence.count for evidence in slots) >= 2 * known.count
        ):
            recent = self._new(family, metric)
            for evidence in slots:
                recent.merge(evidence)
            known = family.learned = Percentiles(recent, known)
            family.learned_at = t
        return known

    def _flush(self, pool: str, target: str, engine: str, t: float) -> None:
        """A restart ends what could still be joined with a later page."""
        for (of_target, of_engine, metric, edges), pairing in self._pairings.items():
            family = self._families.get((pool, metric))
            if (of_target, of_engine) == (target, engine) and family is not None and family.edges == edges:
                records = pairing.flush()
                if records:
                    feed(self._fresh(family, metric, t), records)


def followed_in(role: Role) -> frozenset[str]:
    """The families that are recovered in a pool of this role; a prefill server's requests have no time per token."""
    return FOLLOWED - {"tpot"} if role == "prefill" else FOLLOWED


def fine_edges(metric: str, page_edges: tuple[float, ...], targets: tuple[float, ...]) -> tuple[float, ...]:
    """The page's own edges, the objectives' targets, and a geometric ladder between them where it matters."""
    low, high = FINE_RANGE[metric]
    ladder = []
    edge = low
    while edge < high:
        ladder.append(float(f"{edge:.3g}"))
        edge *= EDGE_RATIO
    return tuple(sorted({*page_edges, *targets, *ladder}))


def _settled(counts: dict[int, int], owed: dict[int, int]) -> dict[int, int]:
    """Counts without negative ones: a correction of an earlier page is taken from what comes next."""
    for bucket, count in list(counts.items()):
        balance = count + owed.pop(bucket, 0)
        if balance < 0:
            owed[bucket] = balance
            balance = 0
        counts[bucket] = balance
    return {bucket: count for bucket, count in counts.items() if count}


def _histogram_document(histogram: FineHistogram | None) -> dict[str, Any] | None:
    if histogram is None:
        return None
    return {"edges": list(histogram.edges), "values": [histogram.counts, histogram.total, histogram.unsummed]}
