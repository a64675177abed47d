"""Whether a value can be used. In: the structure of a page. Out: usable values, and what is wrong with the others.

A doubtful value (counts past 2^53) is used and named; an impossible one is named and not used.
"""

from __future__ import annotations

from math import inf

from agent.model import HistogramValue, PageProblem
from agent.reading.exposition import UNREADABLE
from agent.reading.histogram import EXACT, doubt_of, fault_of, value_of
from agent.reading.layout import Structure
from agent.reading.problems import of_series
from agent.reading.section import SectionKind


class Checks:
    """What is wrong with single values of the page at hand; a value that is checked again is judged anew."""

    def __init__(self) -> None:
        self._counters: dict[int, PageProblem] = {}
        self._gauges: dict[int, PageProblem] = {}
        self._histograms: dict[int, PageProblem] = {}

    def counter(self, page: Structure, index: int) -> bool:
        """Return whether the value of a counter can be used."""
        if index in page.spoiled_counters:
            return False
        value = page.values[SectionKind.COUNTERS][index]
        if 0 <= value <= EXACT:
            self._counters.pop(index, None)
            return True
        key = page.layout.counters[index]
        self._counters[index] = of_series(page.layout.names[key.metric], key.engine, _counter_fault(value))
        return EXACT < value < inf

    def gauge(self, page: Structure, index: int) -> None:
        """Note a gauge that should have a value and has none."""
        if abs(page.values[SectionKind.GAUGES][index]) != inf:
            self._gauges.pop(index, None)
            return
        key = page.layout.gauges[index]
        self._gauges[index] = of_series(page.layout.names[key.metric], key.engine, "its value is no finite number")

    def histogram(self, page: Structure, index: int) -> HistogramValue | None:
        """Return the value of a histogram, if it can be used."""
        place = page.places[index]
        if place is None:
            return None
        values = page.values[SectionKind.HISTOGRAM]
        value = value_of(values, place)
        what = fault_of(values, place) if value is None else doubt_of(values, place)
        if what is None:
            self._histograms.pop(index, None)
        else:
            engine = page.layout.histograms[index].series.engine
            self._histograms[index] = of_series(place.family, engine, what)
        return value

    def problems(self, page: Structure) -> tuple[PageProblem, ...]:
        """Return what is wrong on the page, the first of it."""
        parts = (self._counters, self._histograms, self._gauges)
        if not page.problems.count and not any(parts):
            return ()
        return page.problems.with_more(part[index] for part in parts for index in sorted(part))


def _counter_fault(value: float) -> str:
    if value != value:
        return "its value is NaN"
    if value == UNREADABLE:
        return "its value is not a number"
    if value < 0:
        return f"its value is negative ({value:g}), which no counter can be"
    if value == inf:
        return "its value is infinite"
    return f"its value is past 2^53 ({value:g}), so its increases are not exact"
