"""Rows become fewer rows, and rows become points. In: rows in order of time. Out: points that claim
no more than is known.

A value stands for windows that overlap, so counts are averaged and never added. Percentiles are never averaged: of what
may be one, the latest value stands, and its bounds hold all the others. Stretches without rows are not bridged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SLOT_SECONDS = 60.0
"""One row of a series covers so much time; notes within it are joined."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a series was in one stretch of time. `at`: unix seconds of the last look in it.

    `value` None: unknown then. `low` and `high` hold every value of the stretch with its own bounds; with a known
    `low`, `high` None means that nothing bounds it from above. `count`: observations in one look's window, on average.
    """

    at: float
    value: float | None
    low: float | None
    high: float | None
    count: int | None


class Row(NamedTuple):
    """A series in one slot. `observations`: mean over the looks; `looks`: how many of them knew anything.

    A tuple, since a chart is made of thousands of them.
    """

    at: float
    value: float | None
    low: float | None
    high: float | None
    observations: float | None
    looks: int = 1


def join(rows: Sequence[Row], averaged: bool) -> Row:
    """One row for several, in order of time. `averaged`: the mean by count is right; else the latest value stands.

    A row without bounds is bounded by its value; without either, nothing was known then.
    """
    known = [row for row in rows if row.value is not None or row.low is not None]
    if not known:
        return Row(rows[-1].at, None, None, None, _observations(rows), 0)
    if len(rows) == 1:
        return rows[0]
    lows, highs = [], []
    open_above = False
    for _, value, low, high, _, _ in known:
        lows.append(value if low is None else low)
        highs.append(value if high is None else high)
        open_above = open_above or (high is None and low is not None)
    return Row(
        at=rows[-1].at,
        value=_weighted(known) if averaged else known[-1].value,
        low=min(low for low in lows if low is not None),
        high=None if open_above else max(high for high in highs if high is not None),
        observations=_observations(known),
        looks=sum(row.looks for row in known),
    )


def width_of(begin: float, end: float, most_points: int) -> float:
    """Seconds that one of `most_points` (at least 2) stands for: whole slots."""
    return SLOT_SECONDS * max(1, math.ceil((end - begin) / (max(2, most_points) - 1) / SLOT_SECONDS))


def stretches(rows: Iterable[Row], width_seconds: float, averaged: bool) -> dict[int, Point]:
    """Number of a stretch (unix seconds over its width) -> the point of all its rows, in order of time."""
    found: dict[int, Point] = {}
    held: list[Row] = []
    stretch = 0
    for row in rows:
        into = math.floor(row.at / width_seconds)
        if held and into != stretch:
            found[stretch] = _point(join(held, averaged))
            held = []
        stretch = into
        held.append(row)
    if held:
        found[stretch] = _point(join(held, averaged))
    return found


def with_gaps(points: Mapping[int, Point], width_seconds: float) -> list[Point]:
    """The points of stretches in order of time, with one that knows nothing at the start of each gap."""
    line: list[Point] = []
    before: int | None = None
    for stretch, point in points.items():
        if before is not None and stretch > before + 1:
            line.append(Point((before + 1) * width_seconds, None, None, None, None))
        line.append(point)
        before = stretch
    return line


def _point(row: Row) -> Point:
    count = None if row.observations is None else round(row.observations)
    return Point(row.at, row.value, row.low, row.high, count)


def _weighted(rows: Sequence[Row]) -> float | None:
    total = weights = plain = 0.0
    valued = 0
    for _, value, _, _, observations, looks in rows:
        if value is not None:
            weight = looks if observations is None else looks * observations
            total, weights = total + value * weight, weights + weight
            plain, valued = plain + value, valued + 1
    if weights > 0:
        return total / weights
    return plain / valued if valued else None


def _observations(rows: Sequence[Row]) -> float | None:
    total = looks = 0.0
    for row in rows:
        if row.observations is not None:
            total += row.observations * max(1, row.looks)
            looks += max(1, row.looks)
    return total / looks if looks else None
