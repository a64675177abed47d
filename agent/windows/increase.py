"""Increases: what came on top between two moments, added up over intervals, engines and targets.

In: counter and histogram increases of single series. Out: `Increase`, an additive bag in our logical names that
every indicator reads. Nothing is averaged here: buckets and sums are added, quotients are taken at the very end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import add

CounterKey = tuple[str, str]
"""(logical metric, value of its own label or "")."""


@dataclass(slots=True)
class HistogramIncrease:
    """Observations that one histogram gained.

    `counts` per bucket, one longer than `edges` (the last is above the top edge). `total` is the sum over those
    observations whose sum is trustworthy; `unsummed` counts the others, so a mean is total / (count - unsummed).
    `mixed`: layouts with different edges were merged on the edges they share.
    """

    edges: tuple[float, ...]
    counts: list[float]
    total: float = 0.0
    unsummed: float = 0.0
    mixed: bool = False

    @classmethod
    def empty(cls, edges: tuple[float, ...]) -> HistogramIncrease:
        return cls(edges, [0.0] * (len(edges) + 1))

    @property
    def count(self) -> float:
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Exact mean of the observations with a trustworthy sum; None without any."""
        summed = self.count - self.unsummed
        return self.total / summed if summed > 0 else None

    def count_at_or_below(self, edge: float) -> float | None:
        """Observations at or below `edge`, or None where no bucket ends there."""
        return sum(self.counts[: self.edges.index(edge) + 1]) if edge in self.edges else None

    def add(self, other: HistogramIncrease) -> None:
        """Adds another increase; edges that differ are reduced to the ones both have, which stays exact."""
        if other.edges != self.edges:
            shared = tuple(edge for edge in self.edges if edge in set(other.edges))
            self.counts = regroup(self.counts, self.edges, shared)
            self.edges, self.mixed = shared, True
            steps: Sequence[float] = regroup(other.counts, other.edges, shared)
        else:
            steps = other.counts
        self.counts[:] = map(add, self.counts, steps)
        self.total += other.total
        self.unsummed += other.unsummed
        self.mixed = self.mixed or other.mixed

    def copy(self) -> HistogramIncrease:
        return HistogramIncrease(self.edges, list(self.counts), self.total, self.unsummed, self.mixed)


def regroup(counts: Sequence[float], edges: Sequence[float], coarser: Sequence[float]) -> list[float]:
    """The same observations counted in fewer buckets; every edge of `coarser` must be one of `edges`."""
    grouped = [0.0] * (len(coarser) + 1)
    at = 0
    for bucket, count in enumerate(counts):
        while at < len(coarser) and (bucket == len(edges) or edges[bucket] > coarser[at]):
            at += 1
        grouped[at] += count
    return grouped


@dataclass(slots=True)
class GaugeIntegral:
    """A gauge over time: the sum of value x seconds, and the seconds it was known for, over all engines."""

    value_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class Increase:
    """All that one engine, target or pool gained over a stretch of time."""

    counters: dict[CounterKey, float] = field(default_factory=dict)
    histograms: dict[str, HistogramIncrease] = field(default_factory=dict)
    gauges: dict[CounterKey, GaugeIntegral] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """False where no page told anything, which is not the same as nothing happening."""
        return bool(self.counters or self.histograms)

    def count(self, metric: str, label: str = "") -> float | None:
        """The increase of one counter; None where the page does not have it."""
        return self.counters.get((metric, label))

    def labels(self, metric: str) -> dict[str, float]:
        """Label value -> increase for a counter with a label of its own, e.g. requests_finished by reason."""
        return {label: step for (name, label), step in self.counters.items() if name == metric}

    def gauge_mean(self, metric: str, label: str = "") -> float | None:
        """Time-weighted mean of a gauge per engine; None where it was never known."""
        integral = self.gauges.get((metric, label))
        return integral.value_seconds / integral.seconds if integral is not None and integral.seconds > 0 else None

    def add(self, other: Increase) -> None:
        counters = self.counters
        for key, step in other.counters.items():
            counters[key] = counters.get(key, 0.0) + step
        for metric, histogram in other.histograms.items():
            mine = self.histograms.get(metric)
            if mine is None:
                self.histograms[metric] = histogram.copy()
            else:
                mine.add(histogram)
        for key, integral in other.gauges.items():
            known = self.gauges.setdefault(key, GaugeIntegral())
            known.value_seconds += integral.value_seconds
            known.seconds += integral.seconds

    def copy(self) -> Increase:
        return Increase(
            dict(self.counters),
            {name: histogram.copy() for name, histogram in self.histograms.items()},
            {key: GaugeIntegral(g.value_seconds, g.seconds) for key, g in self.gauges.items()},
        )


def merged_counters(increases: Iterable[Increase]) -> Increase:
    """One bag of the counters alone, where nothing else is asked for."""
    total: dict[CounterKey, float] = {}
    for increase in increases:
        for key, step in increase.counters.items():
            total[key] = total.get(key, 0.0) + step
    return Increase(total)


def merged(increases: Iterable[Increase]) -> Increase:
    """One bag from many; the order does not matter."""
    total = Increase()
    for increase in increases:
        total.add(increase)
    return total
