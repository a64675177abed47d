"""Intervals: what one target gained between two of its pages, packed small.

In: counter steps and histogram steps by their position in the layout. Out: `Interval`, which a window keeps for
many minutes of many engines: hence flat arrays (about ten bytes a changed series) instead of objects.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.model import Layout
from agent.windows.increase import CounterKey, GaugeIntegral, HistogramIncrease, Increase

INTEGRATED_GAUGES = frozenset({"running", "waiting", "waiting_by_reason", "kv_fetch", "kv_usage"})
"""Gauges that are also kept over time; each page's value stands for the interval that ends with it."""


class HistogramStep(NamedTuple):
    """What one histogram gained in one interval: bucket positions, how many in each, and the sum (None: not usable)."""

    histogram: int
    buckets: array[int]
    counts: array[float]
    total: float | None


class Unknown(NamedTuple):
    """Positions of counters and histograms of which an interval says nothing at all, not even that they stood still."""

    counters: frozenset[int]
    histograms: frozenset[int]


NOTHING_UNKNOWN = Unknown(frozenset(), frozenset())


@dataclass(slots=True, eq=False)
class Interval:
    """The steps of all series of one target between the pages of `start` and `end`. Unchanged series take no room."""

    start: float
    end: float
    layout: Layout
    restarted: tuple[str, ...] = ()
    counter_ids: array[int] = field(default_factory=lambda: array("I"))
    counter_steps: array[float] = field(default_factory=lambda: array("d"))
    histogram_ids: array[int] = field(default_factory=lambda: array("I"))
    histogram_totals: array[float] = field(default_factory=lambda: array("d"))
    histogram_fills: array[int] = field(default_factory=lambda: array("H"))
    bucket_ids: array[int] = field(default_factory=lambda: array("H"))
    bucket_steps: array[float] = field(default_factory=lambda: array("d"))
    gauges: array[float] = field(default_factory=lambda: array("d"))
    """The gauges of the page at `end`, in layout order, NaN where it gave no value."""
    unknown: Unknown = NOTHING_UNKNOWN

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def put_counter(self, counter: int, step: float) -> None:
        self.counter_ids.append(counter)
        self.counter_steps.append(step)

    def put_histogram(self, histogram: int, steps: dict[int, float], total: float | None) -> None:
        """`steps`: bucket position -> observations gained there (no zeros)."""
        self.histogram_ids.append(histogram)
        self.histogram_totals.append(math.nan if total is None else total)
        self.histogram_fills.append(len(steps))
        self.bucket_ids.extend(steps.keys())
        self.bucket_steps.extend(steps.values())

    def histogram_steps(self) -> Iterator[HistogramStep]:
        at = 0
        for histogram, total, fill in zip(self.histogram_ids, self.histogram_totals, self.histogram_fills, strict=True):
            yield HistogramStep(
                histogram,
                self.bucket_ids[at : at + fill],
                self.bucket_steps[at : at + fill],
                None if math.isnan(total) else total,
            )
            at += fill


class Gathering:
    """Adds intervals up in logical names: per engine, or all engines of all targets together (`pooled`).

    Series that the layout has but that never moved are present with 0, so that "absent on this page" and "did not
    happen" stay two different answers; those that no interval knows of are absent. Histograms whose edges differ
    (servers started with other buckets) are gathered apart and merged on the shared edges when the result is asked for.
    """

    __slots__ = ("_gathered", "_other_edges", "_plans", "_pooled")

    def __init__(self, pooled: bool = False) -> None:
        self._pooled = pooled
        self._gathered: dict[str, Increase] = {}
        self._other_edges: dict[tuple[str, str, tuple[float, ...]], HistogramIncrease] = {}
        self._plans: dict[tuple[Layout, Unknown], _Plan] = {}

    def add(self, interval: Interval) -> None:
        self._apply(interval, 1.0)

    def take_out(self, interval: Interval) -> None:
        """Undoes an `add`. Counts stay exact; sums lose at most the last digits of a float."""
        self._apply(interval, -1.0)

    @property
    def layouts(self) -> int:
        """How many layouts it has met; each takes memory until the gathering is begun anew."""
        return len(self._plans)

    def result(self) -> dict[str, Increase]:
        """Engine ("" = target-wide, or all when pooled) -> what it gained. Changed by later adds: do not keep."""
        if not self._other_edges:
            return self._gathered
        merged = {engine: increase.copy() for engine, increase in self._gathered.items()}
        for (engine, metric, _), histogram in self._other_edges.items():
            merged[engine].histograms[metric].add(histogram)
        return merged

    def _apply(self, interval: Interval, sign: float) -> None:
        plan = self._plans.get((interval.layout, interval.unknown)) or self._lay_out(interval.layout, interval.unknown)
        for position, step in zip(interval.counter_ids, interval.counter_steps, strict=True):
            counters, key = plan.counters[position]
            counters[key] += sign * step
        at = 0
        bucket_ids, bucket_steps = interval.bucket_ids, interval.bucket_steps
        for position, total, fill in zip(
            interval.histogram_ids, interval.histogram_totals, interval.histogram_fills, strict=True
        ):
            mine = plan.histograms[position]
            assert mine is not None, "an interval has no steps of what it does not know"
            counts = mine.counts
            for entry in range(at, at + fill):
                counts[bucket_ids[entry]] += sign * bucket_steps[entry]
            if total == total:  # NaN marks a sum that must not be used
                mine.total += sign * total
            else:
                mine.unsummed += sign * sum(bucket_steps[at : at + fill])
            at += fill
        seconds = sign * interval.seconds
        for integral, value in zip(plan.gauges, interval.gauges, strict=True):
            if integral is not None and value == value:
                integral.value_seconds += value * seconds
                integral.seconds += seconds

    def _lay_out(self, layout: Layout, unknown: Unknown) -> _Plan:
        plan = self._plans[layout, unknown] = _Plan([], [], [])
        for position, series in enumerate(layout.counters):
            counters = self._of("" if self._pooled else series.engine).counters
            key = (series.metric, series.label)
            if position not in unknown.counters:
                counters.setdefault(key, 0.0)
            plan.counters.append((counters, key))
        for position, keyed in enumerate(layout.histograms):
            engine, metric = "" if self._pooled else keyed.series.engine, keyed.series.metric
            if position in unknown.histograms:
                plan.histograms.append(None)
                continue
            histograms = self._of(engine).histograms
            gathered = histograms.get(metric)
            if gathered is None:
                gathered = histograms[metric] = HistogramIncrease.empty(keyed.edges)
            elif gathered.edges != keyed.edges:
                gathered = self._apart(engine, metric, keyed.edges)
            plan.histograms.append(gathered)
        for series in layout.gauges:
            if series.metric in INTEGRATED_GAUGES:
                gauges = self._of("" if self._pooled else series.engine).gauges
                plan.gauges.append(gauges.setdefault((series.metric, series.label), GaugeIntegral()))
            else:
                plan.gauges.append(None)
        return plan

    def _of(self, engine: str) -> Increase:
        return self._gathered.setdefault(engine, Increase())

    def _apart(self, engine: str, metric: str, edges: tuple[float, ...]) -> HistogramIncrease:
        return self._other_edges.setdefault((engine, metric, edges), HistogramIncrease.empty(edges))


class _Plan(NamedTuple):
    """Where each position of one layout is gathered."""

    counters: list[tuple[dict[CounterKey, float], CounterKey]]
    histograms: list[HistogramIncrease | None]
    gauges: list[GaugeIntegral | None]
