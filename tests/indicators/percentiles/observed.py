"""Observations as a scraper sees them: histogram increases and the sum's increase per record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from agent.indicators.percentiles import Evidence

TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
SMALL = (1.0, 2.0, 5.0)

# Any value from 0 to beyond the last edge, with the edges themselves and repeated values made likely.
values = st.one_of(
    st.floats(0.0, 9.0, allow_nan=False),
    st.sampled_from([0.0, 1.0, 2.0, 5.0, 1.5, 1.0000001, 4.9999]),
)
records = st.lists(values, min_size=1, max_size=7)
windows = st.lists(records, min_size=1, max_size=12)


def binned(edges: Sequence[float], observations: Iterable[float]) -> dict[int, int]:
    """Bucket -> count, as Prometheus counts (value <= edge)."""
    counts: dict[int, int] = {}
    for value in observations:
        bucket = bisect_left(edges, value)
        counts[bucket] = counts.get(bucket, 0) + 1
    return counts


def evidence_of(
    window: Iterable[Sequence[float]], edges: Sequence[float] = SMALL, thresholds: Sequence[float] = ()
) -> Evidence:
    """The evidence of records given as lists of values."""
    evidence = Evidence(edges, thresholds)
    for record in window:
        evidence.add(binned(edges, record), sum(record))
    return evidence
