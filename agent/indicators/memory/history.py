"""Bounded history of levels on fourteen time scales. In: five-minute levels one by one; out: rings of
sub-windows (5 minutes to 12 hours), each the mean of the lowest quarter of its levels, and which of them
just closed. About 70 kB per process whatever its age.

Several scales at once, because the right window is not known beforehand: a leak of gigabytes per hour must be
seen in minutes, one of 20 MB per hour under a collector's saw-tooth needs sub-windows longer than the tooth.
"""

from __future__ import annotations

import base64
import sys
from array import array
from operator import itemgetter
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
    """Sub-windows of one length, oldest first, column by column."""

    __slots__ = ("bins", "columns", "open_levels", "reaches_start")

    def __init__(self, bins: int) -> None:
        self.bins = bins
        self.columns = [array("d") for _ in range(COLUMNS)]
        self.open_levels = 0
        self.reaches_start = True

    def __len__(self) -> int:
        return len(self.columns[TIME])

    def last(self, column: int, count: int) -> list[float]:
        """The newest `count` values of a column."""
        return self.columns[column][-count:].tolist()

    def close(self, recent: list[array[float]]) -> None:
        """Make a sub-window of the newest `open_levels` levels."""
        count, self.open_levels = self.open_levels, 0
        if count == 1:
            for column, source in zip(self.columns, recent, strict=True):
                column.append(source[-1])
        else:
            levels = recent[LEVEL]
            rows = sorted(range(len(levels) - count, len(levels)), key=levels.__getitem__)[: (count + 3) // 4]
            if len(rows) == 1:
                row = rows[0]
                for column, source in zip(self.columns, recent, strict=True):
                    column.append(source[row])
            else:
                lowest = itemgetter(*rows)
                share = 1.0 / len(rows)
                for column, source in zip(self.columns, recent, strict=True):
                    column.append(sum(lowest(source)) * share)
        if len(self.columns[TIME]) > SUB_WINDOWS_KEPT:
            self.reaches_start = False
            for column in self.columns:
                del column[0]


class History:
    """All scales of one process identity."""

    def __init__(self, bin_seconds: float) -> None:
        self._bin = bin_seconds
        self.scales = [Scale(bins) for bins in SUB_WINDOW_BINS]
        self._recent = [array("d") for _ in range(COLUMNS)]
        self._next_number = 0

    def add(self, level: Level) -> list[int]:
        """File one level; the indexes of the scales on which a sub-window closed, shortest first."""
        number = round(level.time / self._bin - 0.5)
        recent = self._recent
        closed = []
        if number != self._next_number:  # a gap: sub-windows may have ended in between
            for index, scale in enumerate(self.scales):
                if scale.open_levels and number // scale.bins != (self._next_number - 1) // scale.bins:
                    scale.close(recent)
                    closed.append(index)
        self._next_number = following = number + 1
        for column, value in zip(recent, level, strict=True):
            column.append(value)
        for index, scale in enumerate(self.scales):
            scale.open_levels += 1
            if following % scale.bins == 0:
                scale.close(recent)
                if index not in closed:
                    closed.append(index)
        if len(recent[TIME]) >= RECENT_SPARE + SUB_WINDOW_BINS[-1]:
            for column in recent:
                del column[: -SUB_WINDOW_BINS[-1]]
        return closed if len(closed) < 2 else sorted(closed)

    def save(self) -> dict[str, Any]:
        """JSON-able: the rings as base64 of little-endian doubles (a list of numbers would be twice as long)."""
        return {
            "recent": _pack(self._recent),
            "next_number": self._next_number,
            "scales": [
                {
                    "bins": scale.bins,
                    "columns": _pack(scale.columns),
                    "open_levels": scale.open_levels,
                    "reaches_start": scale.reaches_start,
                }
                for scale in self.scales
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `save` returned; StateError when the scales are others than today's."""
        if [entry["bins"] for entry in saved["scales"]] != list(SUB_WINDOW_BINS):
            raise StateError("memory trend: the saved history has other time scales; it starts anew")
        self._recent = _unpack(saved["recent"])
        self._next_number = int(saved["next_number"])
        for scale, entry in zip(self.scales, saved["scales"], strict=True):
            scale.columns = _unpack(entry["columns"])
            scale.open_levels = int(entry["open_levels"])
            scale.reaches_start = bool(entry["reaches_start"])


def _pack(columns: list[array[float]]) -> str:
    joined = array("d")
    for column in columns:
        joined.extend(column)
    if sys.byteorder == "big":
        joined.byteswap()
    return base64.b64encode(joined.tobytes()).decode("ascii")


def _unpack(text: str) -> list[array[float]]:
    joined = array("d")
    joined.frombytes(base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        joined.byteswap()
    if len(joined) % COLUMNS:
        raise StateError("memory trend: the saved history is cut short; it starts anew")
    rows = len(joined) // COLUMNS
    return (
        [joined[start : start + rows] for start in range(0, len(joined), rows)]
        if rows
        else [array("d") for _ in range(COLUMNS)]
    )
