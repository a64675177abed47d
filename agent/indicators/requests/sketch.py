"""A distribution in a few kilobytes: values come in, exact count, sum and ends, and quantiles within 0.5 % go out.

Counts in buckets whose edges grow by one factor, so that every quantile has the same relative error, sketches add up
exactly, and a value can be taken out again. Masson, Rim, Lee: DDSketch, PVLDB 12(12), 2019.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from math import ceil, log
from typing import Any

from agent.indicators.distribution import NO_QUANTILES
from agent.state import QUANTILES, Distribution, Quantile

RELATIVE_ERROR = 0.005
FLOOR = 1e-4
"""Up to this value (0.1 ms) there is one bucket: the error there is at most so much, and no longer relative."""
CEILING = 1e6

_GAMMA = (1.0 + RELATIVE_ERROR) / (1.0 - RELATIVE_ERROR)
_PER_LOG = 1.0 / math.log(_GAMMA)
_FIRST = math.ceil(math.log(FLOOR) * _PER_LOG)
_LAST = math.ceil(math.log(CEILING) * _PER_LOG)


class Sketch:
    """`count`, `total`, `least` and `most` are exact (the last two stay wide after `remove`)."""

    __slots__ = ("_below", "_buckets", "_first", "count", "least", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.most = -math.inf
        self._below = 0
        self._first = 0
        self._buckets = array("I")

    def add(self, value: float) -> None:
        """Takes one value. A negative one (a difference of two clocks) is counted at the floor and summed as it is."""
        self.count += 1
        self.total += value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        if value <= FLOOR:
            self._below += 1
            return
        bucket = ceil(log(value) * _PER_LOG) if value < CEILING else _LAST
        at = bucket - self._first
        buckets = self._buckets
        if 0 <= at < len(buckets):
            buckets[at] += 1
        else:
            at = self._reach(bucket)  # which may put another array in place
            self._buckets[at] += 1

    def remove(self, value: float) -> None:
        """Takes out a value that was added."""
        self.count -= 1
        self.total -= value
        if value <= FLOOR:
            self._below -= 1
        else:
            bucket = ceil(log(value) * _PER_LOG) if value < CEILING else _LAST
            self._buckets[bucket - self._first] -= 1

    def merge(self, other: Sketch) -> None:
        """Adds all of another sketch's values."""
        self.count += other.count
        self.total += other.total
        self.least = min(self.least, other.least)
        self.most = max(self.most, other.most)
        self._below += other._below
        if other._buckets:
            self._reach(other._first + len(other._buckets) - 1)
            start = self._reach(other._first)
            mine = self._buckets
            for at, count in enumerate(other._buckets, start):
                mine[at] += count

    @property
    def mean(self) -> float | None:
        """Exact."""
        return self.total / self.count if self.count else None

    def quantile(self, q: float) -> Quantile | None:
        """The value of rank ceil(q n), within the edges of its bucket; None without values."""
        if self.count <= 0:
            return None
        rank = max(1, math.ceil(q * self.count - 1e-9))
        if rank <= self._below:
            return Quantile(self._clip(0.0), self._clip(min(0.0, self.least)), self._clip(FLOOR))
        seen = self._below
        for at, count in enumerate(self._buckets):
            seen += count
            if seen >= rank:
                high = _GAMMA ** (self._first + at)
                low = high / _GAMMA
                middle = 2.0 * high / (_GAMMA + 1.0)
                return Quantile(self._clip(middle), self._clip(low), self._clip(high))
        return Quantile(self.most, self.most, self.most)

    def distribution(self) -> Distribution:
        """For the state; `low` and `high` of a quantile are its bucket's edges."""
        if self.count <= 0:
            return Distribution("no_data", quantiles=NO_QUANTILES, source="traces")
        quantiles = {name: self.quantile(q) for name, q in QUANTILES}
        return Distribution("ok", self.count, self.mean, quantiles, source="traces")

    def document(self) -> dict[str, Any]:
        """As JSON holds it."""
        ends = [self.least, self.most] if self.count else None
        return {
            "n": self.count, "sum": self.total, "ends": ends,
            "below": self._below, "first": self._first, "buckets": list(self._buckets),
        }  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sketch:
        """Raises KeyError, TypeError, ValueError or OverflowError for a damaged document."""
        made = cls()
        buckets: Sequence[int] = document["buckets"]
        made.count, made.total = int(document["n"]), float(document["sum"])
        made._below, made._first, made._buckets = int(document["below"]), int(document["first"]), array("I", buckets)
        if document["ends"] is not None:
            made.least, made.most = float(document["ends"][0]), float(document["ends"][1])
        if made._below + sum(made._buckets) != made.count or len(made._buckets) > _LAST - _FIRST + 1:
            raise ValueError("the buckets of a sketch do not add up to its count")
        return made

    def _clip(self, value: float) -> float:
        return min(max(value, self.least), self.most)

    def _reach(self, bucket: int) -> int:
        """Makes room for `bucket` and returns where it lies."""
        if not self._buckets:
            self._first = bucket
            self._buckets = array("I", bytes(4))
        elif bucket < self._first:
            self._buckets = array("I", bytes(4 * (self._first - bucket))) + self._buckets
            self._first = bucket
        elif bucket >= self._first + len(self._buckets):
            self._buckets.frombytes(bytes(4 * (bucket - self._first - len(self._buckets) + 1)))
        return bucket - self._first
