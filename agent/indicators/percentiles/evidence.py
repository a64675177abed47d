"""What one histogram's increases tell, in bounded memory: bucket counts and, per record, what the sum adds.

In: one record per engine and scrape interval: how many observations fell in each bucket, and what they add up to.
Out: an additive summary that merges across engines, targets and windows, and from which `bounds` and `solve` read.
Three kinds are kept, because they say different things: records whose observations share a bucket (a group with a
known mean; a group of one is an exact value), records that span buckets (whole while they are few, else a fair
sample for the estimate and per-bucket ranges for the bounds), and observations of which only the bucket is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from agent.errors import StateError
from agent.indicators.percentiles.cells import Cells, Group

GROUP_CELLS = 320
SPAN_CELLS = 90
WHOLE_RECORDS = 100
FORMAT = 1

# Sums are differences of large floating-point totals: a count derived from one may be off by this much.
COUNT_TOLERANCE = 1e-6


class Evidence:
    """Evidence on one histogram family with the finite ``edges`` (seconds, or whatever the family is in).

    For each of ``thresholds`` (an objective's target) the certain share above it is kept exactly, record by record;
    for any other point the bounds stay valid and get slightly looser once memory has to be saved. Observations are
    taken to be >= 0, as vLLM's durations and sizes are; a sum that says otherwise counts as contradicted.
    """

    def __init__(self, edges: Sequence[float], thresholds: Iterable[float] = ()) -> None:
        self.edges = tuple(float(edge) for edge in edges if math.isfinite(edge))
        if (
            not self.edges
            or self.edges[0] <= 0
            or any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False))
        ):
            raise ValueError(f"bucket edges must be positive and ascending, got {tuple(edges)!r}")
        self.counts = [0] * (len(self.edges) + 1)
        self.unsummed = [0] * (len(self.edges) + 1)
        self.records = 0
        self.contradicted = 0
        self.torn = 0
        self.sum = 0.0
        self.revision = 0
        self.groups = Cells(self.edges, GROUP_CELLS, exact_sizes=8)
        self.spans = Cells(self.edges, SPAN_CELLS, exact_sizes=1)
        # (sum, bucket, count, bucket, count, ...) -> how many such records
        self.whole: dict[tuple[float, ...], int] = {}
        self._bar: tuple[int, tuple[float, ...]] | None = None
        self.spanned = [0] * (len(self.edges) + 1)
        # bucket -> [pairs of successive records, sum of their squared steps]
        self.steps: dict[int, list[float]] = {}
        # threshold -> [certainly above, possibly above]
        self.above = {float(x): [0, 0] for x in thresholds}
        self._lows = (0.0, *self.edges)
        self._highs = (*self.edges, math.inf)

    @property
    def count(self) -> int:
        """All observations, with or without a usable sum."""
        return sum(self.counts)

    def add(
        self, counts: Mapping[int, int] | Sequence[int], total: float | None, step: tuple[int, float] | None = None
    ) -> bool:
        """One record: increases per bucket (dense, or bucket index -> count) and the sum's increase.

        ``step``: see `pairing.Record`; it tells how much of the spread lies between records and how much inside them.

        Returns False where the sum was missing or contradicted the buckets and only the buckets were counted.
        """
        pairs = counts.items() if isinstance(counts, Mapping) else enumerate(counts)
        parts = [(bucket, int(count)) for bucket, count in pairs if count]
        if not parts:
            return total is None or total == 0
        least = most = 0.0
        observations = 0
        for bucket, count in parts:
            if count < 0:
                raise ValueError(f"bucket {bucket} decreased by {-count}: resets must be removed before")
            self.counts[bucket] += count
            observations += count
            least += count * self._lows[bucket]
            most += count * self._highs[bucket]
        self.revision += 1
        if total is None or not fits(total, least, most):
            self.contradicted += total is not None
            for bucket, count in parts:
                self.unsummed[bucket] += count
            self._add_above(parts, None, least)
            return False
        total = min(max(total, least), most)
        self.records += 1
        self.sum += total
        if step is not None:
            held = self.steps.setdefault(step[0], [0, 0.0])
            held[0] += 1
            held[1] += step[1]
        self._add_above(parts, total, least)
        if len(parts) == 1:
            self.groups.add(parts[0][0], observations, total, total)
        else:
            for bucket, count in parts:
                self.spanned[bucket] += count
            key = (total, *chain.from_iterable(sorted(parts)))
            if self._bar is not None and lot(key) > self._bar:
                self._to_spans(key, 1)
            else:
                self.whole[key] = self.whole.get(key, 0) + 1
                self._spill()
        return True

    def merge(self, other: Evidence) -> None:
        """Add what another evidence of the same edges holds. Thresholds only one of them knows are dropped."""
        if other.edges != self.edges:
            raise ValueError(f"cannot merge histograms with different edges: {self.edges} and {other.edges}")
        self.revision += 1
        for mine, theirs in (
            (self.counts, other.counts),
            (self.unsummed, other.unsummed),
            (self.spanned, other.spanned),
        ):
            for bucket, count in enumerate(theirs):
                mine[bucket] += count
        self.records += other.records
        self.contradicted += other.contradicted
        self.torn += other.torn
        self.sum += other.sum
        for bucket, (pairs, squares) in other.steps.items():
            held = self.steps.setdefault(bucket, [0, 0.0])
            held[0] += pairs
            held[1] += squares
        self.above = {
            x: [a[0] + other.above[x][0], a[1] + other.above[x][1]] for x, a in self.above.items() if x in other.above
        }
        self.groups.merge(other.groups)
        self.spans.merge(other.spans)
        for key, times in other.whole.items():
            self.whole[key] = self.whole.get(key, 0) + times
        bars = [bar for bar in (self._bar, other._bar) if bar is not None]
        if bars:
            # What one side has let go of, the other lets go of, too.
            self._bar = min(bars)
            for key in [key for key in self.whole if lot(key) > self._bar]:
                self._to_spans(key, self.whole.pop(key))
        self._spill()

    def limits(self) -> Iterator[Group]:
        """Everything with a usable sum as groups of one bucket, for the certain bounds."""
        yield from self.groups.groups()
        yield from self.spans.groups()
        for key, times in self.whole.items():
            for bucket, size, low, high in self.ranges(key):
                yield Group(bucket, size, times, times * size, times * low, times * high, low / size, high / size)

    def ranges(self, key: tuple[float, ...]) -> list[tuple[int, int, float, float]]:
        """Per bucket of a whole record: bucket, count, and the least and most its observations can add up to."""
        total = key[0]
        parts = [(int(key[i]), int(key[i + 1])) for i in range(1, len(key), 2)]
        least = sum(count * self._lows[bucket] for bucket, count in parts)
        return [(bucket, count, *self._range(bucket, count, total, least, parts)) for bucket, count in parts]

    def to_json(self) -> dict[str, Any]:
        """A compact form of plain lists and numbers, at most about 20 kB."""
        return {
            "format": FORMAT,
            "edges": list(self.edges),
            "counts": _sparse(self.counts),
            "unsummed": _sparse(self.unsummed),
            "spanned": _sparse(self.spanned),
            "records": self.records,
            "contradicted": self.contradicted,
            "torn": self.torn,
            "sum": self.sum,
            "groups": self.groups.to_json(),
            "spans": self.spans.to_json(),
            "bar": None if self._bar is None else list(self._bar[1]),
            "whole": [[times, *key] for key, times in self.whole.items()],
            "steps": [[bucket, *held] for bucket, held in self.steps.items()],
            "above": [[x, *counts] for x, counts in self.above.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        """The inverse of :meth:`to_json`; raises StateError where the data are of another form."""
        try:
            if data["format"] != FORMAT:
                raise StateError(f"percentile evidence of format {data['format']!r}, this version reads {FORMAT}")
            evidence = cls(data["edges"])
            for held, name in (
                (evidence.counts, "counts"),
                (evidence.unsummed, "unsummed"),
                (evidence.spanned, "spanned"),
            ):
                for bucket, count in data[name]:
                    held[bucket] = int(count)
            evidence.records = int(data["records"])
            evidence.contradicted = int(data["contradicted"])
            evidence.torn = int(data["torn"])
            evidence.sum = float(data["sum"])
            evidence.groups.load_json(data["groups"])
            evidence.spans.load_json(data["spans"])
            evidence._bar = None if data["bar"] is None else lot(tuple(data["bar"]))
            evidence.whole = {(float(row[1]), *(int(v) for v in row[2:])): int(row[0]) for row in data["whole"]}
            evidence.steps = {int(b): [int(pairs), float(squares)] for b, pairs, squares in data["steps"]}
            evidence.above = {float(x): [int(least), int(most)] for x, least, most in data["above"]}
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"saved percentile evidence is damaged ({error!r}); its window starts anew") from error
        return evidence

    def _range(
        self, bucket: int, count: int, total: float, least: float, parts: list[tuple[int, int]]
    ) -> tuple[float, float]:
        """Least and most that the record's ``count`` observations in ``bucket`` can add up to."""
        low, high = self._lows[bucket], self._highs[bucket]
        top = min(total - (least - count * low), count * high)
        others = sum([c * self._highs[b] for b, c in parts if b != bucket])
        return max(total - others, count * low), max(top, count * low)

    def _add_above(self, parts: list[tuple[int, int]], total: float | None, least: float) -> None:
        """Count what is certainly and what is possibly above each known threshold."""
        for x, held in self.above.items():
            for bucket, count in parts:
                low, high = self._lows[bucket], self._highs[bucket]
                if low >= x:
                    held[0] += count
                    held[1] += count
                elif high > x:
                    if total is None:
                        held[1] += count
                    else:
                        bottom, top = self._range(bucket, count, total, least, parts)
                        held[0] += least_above(x, high, count, bottom)
                        held[1] += most_above(x, low, count, top)

    def _spill(self) -> None:
        """Keep a fair sample of the whole records; the rest goes on as per-bucket ranges.

        The sample is the smallest hashes of the records' contents, so it does not depend on the order of arrival or
        merging.
        """
        if len(self.whole) <= WHOLE_RECORDS:
            return
        ordered = sorted(self.whole, key=lot)
        self._bar = lot(ordered[WHOLE_RECORDS - 1])
        for key in ordered[WHOLE_RECORDS:]:
            self._to_spans(key, self.whole.pop(key))

    def _to_spans(self, key: tuple[float, ...], times: int) -> None:
        for bucket, size, low, high in self.ranges(key):
            self.spans.add(bucket, size, low, high, times)


def fits(total: float, least: float, most: float) -> bool:
    """Whether a sum can come from observations whose buckets allow [least, most] (with room for rounding)."""
    room = 1e-9 * max(abs(total), least) + 1e-12
    return math.isfinite(total) and least - room <= total <= most + room


def most_above(x: float, low: float, count: float, top: float) -> int:
    """How many of ``count`` observations, each > low and adding up to at most ``top``, can lie above x."""
    return int(min(count, math.floor((top - count * low) / (x - low) + COUNT_TOLERANCE)))


def least_above(x: float, high: float, count: float, bottom: float) -> int:
    """How many of ``count`` observations, each <= high and adding up to at least ``bottom``, must lie above x."""
    if math.isinf(high):
        return int(bottom > count * x * (1.0 + 1e-9))
    return max(0, math.ceil((bottom - count * x) / (high - x) - COUNT_TOLERANCE))


def lot(key: tuple[float, ...]) -> tuple[int, tuple[float, ...]]:
    """The order in which whole records are kept: as good as random, and the same whenever asked."""
    # The hash of a tuple of numbers is the same in every process; the key itself breaks ties.
    return hash(key), key


def _sparse(values: list[int]) -> list[list[int]]:
    return [[place, value] for place, value in enumerate(values) if value]
