"""A bounded table of records of one bucket, in cells of group size and position of the mean.

In: groups of observations that share a bucket, each with the range that their sum must lie in.
Out: the same groups, merged into few enough cells that memory is bounded, from which certain counts follow.
Merging two records into one (adding their sizes and their sums) only ever loses sharpness, never validity; and because
coarsening is a projection of the cell's key, the table reached does not depend on the order of merging.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

FINEST_LEVEL = 256
SIZES_PER_OCTAVE = 4


class Group(NamedTuple):
    """``records`` records of ``size`` observations each in bucket ``bucket``; ``size`` 0: sizes differ.

    ``observations`` in all. Over all the records the observations' sum lies in [sum_low, sum_high]; each single
    record's mean lies in [mean_low, mean_high].
    """

    bucket: int
    size: int
    records: int
    observations: int
    sum_low: float
    sum_high: float
    mean_low: float
    mean_high: float


class Cells:
    """At most about ``capacity`` cells, with sizes up to ``exact_sizes`` kept apart.

    The positions get coarser (256, 128, ... 1 per bucket) when there are more. A position is the fraction of the way
    through the bucket, (mean - low) / (high - low); in the bucket above the last finite edge, which has no upper end,
    it is 1 - low / mean.
    """

    __slots__ = ("_edges", "capacity", "cells", "exact_sizes", "level")

    def __init__(self, edges: tuple[float, ...], capacity: int, exact_sizes: int) -> None:
        self._edges = edges
        self.capacity = capacity
        self.exact_sizes = exact_sizes
        self.level = FINEST_LEVEL
        # (bucket, size class, first position, last position) -> [records, observations, sum low, sum high]
        self.cells: dict[tuple[int, int, int, int], list[float]] = {}

    def add(self, bucket: int, size: int, sum_low: float, sum_high: float, records: int = 1) -> None:
        """``records`` records of ``size`` observations each; the sums are those of one record."""
        low_at = self._fraction(bucket, sum_low / size) * self.level
        high_at = low_at if sum_high == sum_low else self._fraction(bucket, sum_high / size) * self.level
        last = self.level - 1
        key = (bucket, self._size_class(size), min(int(low_at), last), min(int(high_at), last))
        self._put(key, [records, records * size, records * sum_low, records * sum_high])
        if len(self.cells) > self.capacity:
            self.coarsen()

    def merge(self, other: Cells) -> None:
        """Take in the cells of another table over the same edges."""
        self._to_level(min(self.level, other.level))
        divide = other.level // self.level
        for (bucket, sizes, first, last), sums in other.cells.items():
            self._put((bucket, sizes, first // divide, last // divide), list(sums))
        self.coarsen()

    def coarsen(self) -> None:
        """Halve the number of positions until the table fits (or one position per bucket is left)."""
        while len(self.cells) > self.capacity and self.level > 1:
            self._to_level(self.level // 2)

    def groups(self) -> Iterator[Group]:
        """Every cell as a group, with the outer ends of its means."""
        for (bucket, sizes, first, last), (records, observations, low, high) in self.cells.items():
            size = sizes if sizes <= self.exact_sizes else 0
            if records == 1:
                yield Group(
                    bucket, int(observations), 1, int(observations), low, high, low / observations, high / observations
                )
            else:
                yield Group(
                    bucket,
                    size,
                    int(records),
                    int(observations),
                    low,
                    high,
                    self._value(bucket, first / self.level),
                    self._value(bucket, (last + 1) / self.level),
                )

    def to_json(self) -> list[object]:
        """Level, then one flat row per cell; where both sums are the same it is written once."""
        rows = [[*key, *(sums if sums[2] != sums[3] else sums[:3])] for key, sums in self.cells.items()]
        return [self.level, rows]

    def load_json(self, data: list[object]) -> None:
        """The inverse of :meth:`to_json`."""
        level, rows = data
        if not isinstance(level, int) or not isinstance(rows, list):
            raise TypeError("cells are a level and a list of rows")
        self.level = level
        self.cells = {(row[0], row[1], row[2], row[3]): [row[4], row[5], float(row[6]), float(row[-1])] for row in rows}

    def _size_class(self, size: int) -> int:
        """The size itself while it is small, then SIZES_PER_OCTAVE classes per doubling (one in all after 1)."""
        exact = self.exact_sizes
        if size <= exact or exact == 1:
            return min(size, exact + 1)
        return exact + 1 + int(SIZES_PER_OCTAVE * math.log2(size / exact))

    def _put(self, key: tuple[int, int, int, int], sums: list[float]) -> None:
        held = self.cells.get(key)
        if held is None:
            self.cells[key] = sums
        else:
            for place in range(4):
                held[place] += sums[place]

    def _to_level(self, level: int) -> None:
        if level == self.level:
            return
        divide = self.level // level
        self.level = level
        finer, self.cells = self.cells, {}
        for (bucket, sizes, first, last), sums in finer.items():
            self._put((bucket, sizes, first // divide, last // divide), sums)

    def _fraction(self, bucket: int, mean: float) -> float:
        low = self._edges[bucket - 1] if bucket else 0.0
        if bucket == len(self._edges):
            return 1.0 - low / mean if mean > low else 0.0
        return max((mean - low) / (self._edges[bucket] - low), 0.0)

    def _value(self, bucket: int, fraction: float) -> float:
        low = self._edges[bucket - 1] if bucket else 0.0
        if bucket == len(self._edges):
            return low / (1.0 - fraction) if fraction < 1.0 else math.inf
        return low + fraction * (self._edges[bucket] - low)
