"""Histograms for the tests of the verdicts, made of observations, so that bounds can be checked against them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from agent.windows.increase import HistogramIncrease


def counted(observations: Sequence[float], edges: Sequence[float]) -> HistogramIncrease:
    """The histogram that a server would show of these observations."""
    histogram = HistogramIncrease.empty(tuple(edges))
    for value in observations:
        histogram.counts[bisect_left(edges, value)] += 1
    histogram.total = sum(observations)
    return histogram


def cumulative(counts: Mapping[float, float], total: float, above: float = 0.0) -> HistogramIncrease:
    """A histogram as a page has it: upper edge -> observations at or below it; `above` more lie above the top edge."""
    edges = tuple(sorted(counts))
    steps = [counts[edge] - (counts[edges[i - 1]] if i else 0.0) for i, edge in enumerate(edges)]
    return HistogramIncrease(edges, [*steps, above], total)
