"""Whole pages as values: what one page of a target gave, by position of its layout or by series.

In: nothing but values. Out: `Page` (kept for a few scrapes), `RememberedPage` (kept over a restart), and the one
question that is asked of two pages: does the newer continue the older?
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.model import HistogramValue, Layout, SeriesKey


@dataclass(frozen=True, slots=True)
class RememberedPage:
    """A page's values by series, as they outlive pdwatch itself."""

    t: float
    started_seconds: float | None
    engines: tuple[str, ...]
    counters: dict[SeriesKey, float]
    histograms: dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue]


@dataclass(slots=True)
class Page:
    """All values of one page: by position of its layout; None where the page gave nothing usable."""

    t: float
    layout: Layout
    counters: list[float | None]
    histograms: list[HistogramValue | None]
    started_seconds: float | None
    troubled: frozenset[str]


def continues(older: Page, page: Page, engine: str, least: float) -> bool:
    """True when every count of the engine is at or above an older page's, whose counts add up to at least `least`."""
    if older.layout is not page.layout:
        return False
    seen = 0.0
    for series, before, now in zip(page.layout.counters, older.counters, page.counters, strict=True):
        if series.engine == engine and before:
            if now is None or now < before:
                return False
            seen += before
    for key, past, present in zip(page.layout.histograms, older.histograms, page.histograms, strict=True):
        if key.series.engine == engine and past is not None and any(past.counts):
            if present is None or any(b < a for a, b in zip(past.counts, present.counts, strict=True)):
                return False
            seen += math.fsum(past.counts)
    return seen >= least
