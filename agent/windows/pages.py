"""Whole pages as values: what one page of a target gave, by position of its layout or by series.

In: nothing but values. Out: `Page` (kept for a few scrapes), `RememberedPage` (kept over a restart), and the one
question that is asked of two pages: does the newer continue the older?
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agent.model import HistogramValue, Layout, SeriesKey


def process_of(layout: Layout, series: SeriesKey) -> str:
    """Whose counts a series holds: its engine's, or its replica's where several stand behind one page."""
    return f"{series.engine} {series.raw}" if layout.replicas and series.engine else series.engine


class Gone:
    """Series that left a target's page: their last values, should they come back.

    A family can miss on one page (cut at a line's end, a filter, a type that changed) and stand on the next. Without
    its last value it would either begin at 0, which counts its whole life, or lose what it gained meanwhile.
    """

    MOST = 20_000

    def __init__(self) -> None:
        self.counters: dict[SeriesKey, float] = {}
        self.histograms: dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue] = {}

    def copy(self) -> Gone:
        """As it is now, for a look at two pages."""
        made = Gone()
        made.counters, made.histograms = dict(self.counters), dict(self.histograms)
        return made

    def note(self, before: Page, page: Page) -> None:
        """What `page` no longer has is kept, and what it has again is let go.

        Where one server becomes several behind the page, or they become one, its series change their names.
        """
        if before.layout.replicas != page.layout.replicas:
            self.clear()
            return
        counters, histograms = set(page.layout.counters), {key.series for key in page.layout.histograms}
        for series, value in zip(before.layout.counters, before.counters, strict=True):
            if value is not None and series not in counters:
                self.counters[series] = value
        for key, histogram in zip(before.layout.histograms, before.histograms, strict=True):
            if histogram is not None and key.series not in histograms:
                self.histograms[key.series, key.edges] = histogram
        self.counters = {series: value for series, value in self.counters.items() if series not in counters}
        self.histograms = {key: value for key, value in self.histograms.items() if key[0] not in histograms}
        if len(self.counters) + len(self.histograms) > self.MOST:
            self.clear()

    def forget(self, restarted: set[str], layout: Layout) -> None:
        """Processes that restarted count from 0 again."""
        if restarted:
            self.counters = {
                series: value for series, value in self.counters.items() if process_of(layout, series) not in restarted
            }
            self.histograms = {
                key: value for key, value in self.histograms.items() if process_of(layout, key[0]) not in restarted
            }

    def clear(self) -> None:
        """Nothing is known any more."""
        self.counters, self.histograms = {}, {}


@dataclass(frozen=True, slots=True)
class RememberedPage:
    """A page's values by series, as they outlive pdwatch itself."""

    t: float
    started_seconds: float | None
    engines: tuple[str, ...]
    counters: dict[SeriesKey, float]
    histograms: dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue]
    gone: Gone = field(default_factory=Gone)
    """Series that it no longer had, should they come back."""


@dataclass(slots=True)
class Page:
    """All values of one page: by position of its layout; None where the page gave nothing usable."""

    t: float
    layout: Layout
    counters: list[float | None]
    histograms: list[HistogramValue | None]
    started_seconds: float | None
    troubled: frozenset[str]

    @property
    def processes(self) -> dict[str, str]:
        """Process -> its engine, for all that have a series; "" among them where one belongs to the whole target."""
        layout = self.layout
        series = (*layout.counters, *(key.series for key in layout.histograms))
        return {process_of(layout, key): key.engine for key in series}


def continues(older: Page, page: Page, process: str, least: float) -> bool:
    """True when every count of the process is at or above an older page's, whose counts add up to at least `least`."""
    if older.layout is not page.layout:
        return False
    seen = 0.0
    for series, before, now in zip(page.layout.counters, older.counters, page.counters, strict=True):
        if before and process_of(page.layout, series) == process:
            if now is None or now < before:
                return False
            seen += before
    for key, past, present in zip(page.layout.histograms, older.histograms, page.histograms, strict=True):
        if past is not None and any(past.counts) and process_of(page.layout, key.series) == process:
            if present is None or any(b < a for a, b in zip(past.counts, present.counts, strict=True)):
                return False
            seen += math.fsum(past.counts)
    return seen >= least
