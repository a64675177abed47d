"""Bounded history of levels on sixteen time scales. In: five-minute levels one by one; out: rings of
sub-windows (5 minutes to 12 hours), each the mean of the lowest quarter of its levels, and which of them
just closed. About 70 kB per process whatever its age.

Several scales at once, because the right window is not known beforehand: a leak of gigabytes per hour must be
seen in minutes, one of 20 MB per hour under a collector's saw-tooth needs sub-windows longer than the tooth.
"""

from __future__ import annotations

import base64
import sys
from array import array
from typing import Any

from agent.errors import StateError
from agent.indicators.memory.levels import Level
from agent.indicators.memory.settings import SUB_WINDOW_BINS, SUB_WINDOWS_KEPT

TIME, LEVEL, LOAD, LOAD_FAST, LOAD_SLOW, LOAD_PEAK, AGE, LIFE = range(8)
"""Columns of a ring, in the order of `Level`'s fields."""

COLUMNS = len(Level._fields)

RECENT_SPARE = 64
"""Levels kept beyond the longest sub-window, so that old ones are dropped in one go now and then."""


class Scale:
    """Sub-windows of one length, oldest first: one flat array, a row of `COLUMNS` numbers per sub-window."""

    __slots__ = ("_table", "bins", "filed_before", "reaches_start")

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self._table = array("d")
        self.filed_before = 0
        """Levels that the history had filed when the newest sub-window closed."""
        self.reaches_start = True

    def __len__(self) -> int:
        return len(self._table) // COLUMNS

    def column(self, column: int) -> list[float]:
        """All values of a column, oldest first."""
        return self._table[column::COLUMNS].tolist()

    def last(self, column: int, count: int) -> list[float]:
        """The newest `count` values of a column, or as many as there are."""
        first = max(len(self._table) - COLUMNS * count, 0)
        return self._table[first + column :: COLUMNS].tolist()

    def at(self, column: int, index: int) -> float:
        """One value of a column; the index counts from the newest when it is below 0."""
        return self._table[index * COLUMNS + column]

    def close(self, recent: array[float], count: int) -> None:
        """Make a sub-window of the newest `count` levels."""
        table = self._table
        if count == 1:
            table.extend(recent[-COLUMNS:])
        else:
            start = len(recent) - COLUMNS * count
            levels = recent[start + LEVEL :: COLUMNS]
            rows = sorted(range(count), key=levels.__getitem__)[: (count + 3) // 4]
            lowest = [recent[start + COLUMNS * row : start + COLUMNS * (row + 1)] for row in rows]
            if len(lowest) == 1:
                table.extend(lowest[0])
            else:
                share = 1.0 / len(lowest)
                table.extend([total * share for total in map(sum, zip(*lowest, strict=True))])
        if len(table) > COLUMNS * SUB_WINDOWS_KEPT:
            self.reaches_start = False
            del table[:COLUMNS]

    def save(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "bins": self.bins,
            "table": _pack(self._table),
            "filed_before": self.filed_before,
            "reaches_start": self.reaches_start,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `save` returned."""
        self._table = _unpack(saved["table"])
        self.filed_before = int(saved["filed_before"])
        self.reaches_start = bool(saved["reaches_start"])


class History:
    """All scales of one process identity."""

    def __init__(self, bin_seconds: float) -> None:
        self._bin = bin_seconds
        self.scales = [Scale(bins) for bins in SUB_WINDOW_BINS]
        self._recent = array("d")
        self._filed = 0
        self._next_number = 0

    def add(self, level: Level) -> list[int]:
        """File one level; the indexes of the scales on which a sub-window closed, shortest first."""
        number = round(level.time / self._bin - 0.5)
        recent = self._recent
        before = self._next_number
        closed = []
        if number != before:  # a gap: sub-windows may have ended in between
            for index, scale in enumerate(self.scales):
                if scale.filed_before < self._filed and number // scale.bins != (before - 1) // scale.bins:
                    self._close(scale)
                    closed.append(index)
        self._next_number = following = number + 1
        recent.extend(level)
        self._filed += 1
        ending = [index for index, bins in enumerate(SUB_WINDOW_BINS) if not following % bins]
        for index in ending:
            self._close(self.scales[index])
        if len(recent) >= COLUMNS * (RECENT_SPARE + SUB_WINDOW_BINS[-1]):
            del recent[: -COLUMNS * SUB_WINDOW_BINS[-1]]
        return sorted({*closed, *ending}) if closed else ending

    def _close(self, scale: Scale) -> None:
        scale.close(self._recent, self._filed - scale.filed_before)
        scale.filed_before = self._filed

    def save(self) -> dict[str, Any]:
        """JSON-able: the rings as base64 of little-endian doubles (a list of numbers would be twice as long)."""
        return {
            "recent": _pack(self._recent),
            "filed": self._filed,
            "next_number": self._next_number,
            "scales": [scale.save() for scale in self.scales],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `save` returned; StateError when the scales are others than today's."""
        if [entry["bins"] for entry in saved["scales"]] != list(SUB_WINDOW_BINS):
            raise StateError("memory trend: the saved history has other time scales; it starts anew")
        self._recent = _unpack(saved["recent"])
        self._filed = int(saved["filed"])
        self._next_number = int(saved["next_number"])
        for scale, entry in zip(self.scales, saved["scales"], strict=True):
            scale.restore(entry)


def _pack(table: array[float]) -> str:
    little = array("d", table)
    if sys.byteorder == "big":
        little.byteswap()
    return base64.b64encode(little.tobytes()).decode("ascii")


def _unpack(text: str) -> array[float]:
    table = array("d")
    table.frombytes(base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        table.byteswap()
    if len(table) % COLUMNS:
        raise StateError("memory trend: the saved history is cut short; it starts anew")
    return table
