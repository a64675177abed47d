"""Makes each engine's records whole before they count: puts torn reads back together.

In: one engine's increases, interval after interval. Out: records whose sum and buckets can belong together.
A page is not written at one instant: an observation made meanwhile can have its value in this scrape's sum and its
count in the next scrape's bucket, or the other way round. Two neighbouring intervals are then wrong, and their
union is right. So a record is held until the next one has been seen; where one contradicts itself, it is joined
with both its neighbours (which of the two shares the torn observation cannot be told), and further until the union
fits. Joining costs sharpness, never truth. After LONGEST_REPAIR intervals the sum is given up: those observations
count by bucket alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.indicators.percentiles.correlation import MAIN_PART, NARROW
from agent.indicators.percentiles.evidence import Evidence, fits

LONGEST_REPAIR = 5


class Record(NamedTuple):
    """Increases by bucket, what they add up to (None: not known), and the step from the engine's record before.

    ``step`` is (bucket, squared difference of the two means over (1 / k + 1 / k')), given where both records lie
    (nearly all) in one bucket. ``repaired``: joined from several intervals because a read was torn.
    """

    counts: dict[int, int]
    total: float | None
    step: tuple[int, float] | None = None
    repaired: bool = False


class Pairing:
    """One engine's records of one histogram family; ``torn`` counts the repairs."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._lows = (0.0, *edges)
        self._highs = (*edges, float("inf"))
        self._held: Record | None = None
        self._broken = 0
        self._before: tuple[int, int, float] | None = None
        self._repaired = False
        self.torn = 0

    def push(self, counts: Mapping[int, int] | Sequence[int], total: float | None) -> list[Record]:
        """Take one interval's increases; returns the records that are now certain to be whole."""
        pairs = counts.items() if isinstance(counts, Mapping) else enumerate(counts)
        new = Record({bucket: count for bucket, count in pairs if count}, total)
        if total is None or total < 0.0:
            # Nothing to repair with: a falling sum is a poisoned one, not a torn one.
            return [*self.flush(), *self._out(new)]
        whole = self._fits(new)
        if whole and not self._broken:
            out = self.flush()
            self._held = new if new.counts else None
            return out
        joined = _join(self._held, new)
        if whole and self._fits(joined):
            self.torn += 1
            self._repaired = True
            self._broken = 0
            self._held = joined
            return []
        self._broken += 1
        self._held = joined
        if self._broken >= LONGEST_REPAIR:
            return self.flush()
        return []

    def flush(self) -> list[Record]:
        """Let go of what is held: at a reset, at the end of a recording, or before a long gap."""
        held, self._held = self._held, None
        broken, self._broken = self._broken, 0
        if held is None or not held.counts:
            return []
        if broken and self._fits(held):
            self.torn += 1
            self._repaired = True
        elif broken:
            # Kept as it is: the evidence finds the contradiction, counts it, and uses the buckets alone.
            self._before = None
        return self._out(held)

    @property
    def pending(self) -> Record | None:
        """What is held back at present, as it would be let go (for a readout that must not miss an observation)."""
        return self._held if self._held is not None and self._held.counts else None

    def _out(self, record: Record) -> list[Record]:
        if not record.counts:
            return []
        step = None
        before, self._before = self._before, None
        main = self._main(record)
        if main is not None:
            bucket, size, mean = main
            if before is not None and before[0] == bucket:
                step = bucket, (mean - before[2]) ** 2 / (1.0 / size + 1.0 / before[1])
            self._before = main
        repaired, self._repaired = self._repaired, False
        return [Record(record.counts, record.total, step, repaired)]

    def _main(self, record: Record) -> tuple[int, int, float] | None:
        """Bucket, count and mean of the bucket that holds the record, or nearly all of it, its mean nearly certain."""
        if record.total is None or not self._fits(record):
            return None
        bucket, size = max(record.counts.items(), key=lambda item: item[1])
        if len(record.counts) == 1:
            return bucket, size, record.total / size
        others = [(b, c) for b, c in record.counts.items() if b != bucket]
        low, high = self._lows[bucket], self._highs[bucket]
        least = max(record.total - sum([c * self._highs[b] for b, c in others]), size * low)
        most = min(record.total - sum([c * self._lows[b] for b, c in others]), size * high)
        if size < MAIN_PART * sum(record.counts.values()) or not most - least < NARROW * size * (high - low):
            return None
        return bucket, size, 0.5 * (least + most) / size

    def _fits(self, record: Record) -> bool:
        if record.total is None:
            return True
        least = sum([count * self._lows[bucket] for bucket, count in record.counts.items()])
        most = sum([count * self._highs[bucket] for bucket, count in record.counts.items()])
        return fits(record.total, least, most)


def feed(evidence: Evidence, records: Sequence[Record]) -> None:
    """Add records to an evidence."""
    for record in records:
        evidence.add(record.counts, record.total, record.step)
        evidence.torn += record.repaired


def _join(a: Record | None, b: Record) -> Record:
    if a is None:
        return b
    counts = dict(a.counts)
    for bucket, count in b.counts.items():
        counts[bucket] = counts.get(bucket, 0) + count
    return Record(counts, None if a.total is None or b.total is None else a.total + b.total)
