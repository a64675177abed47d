"""Lines that were read before. In: which stretches of a line are asked for. Out: their points, each read once.

A stretch that lies wholly in the past does not change any more, and a viewer asks for the same day every minute: so
only what has been added since is read. Whoever changes rows of the past says `forget`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.outputs.history.thinning import Point

MOST_LINES = 32
"""Kept at once, a few hundred points each; the one that was not asked for the longest goes first."""


@dataclass(slots=True)
class _Line:
    """What is known of the stretches from `first` to before `after`."""

    first: int
    after: int
    points: dict[int, Point] = field(default_factory=dict)


class Lines:
    """Lines by name and width of their stretches."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, float], _Line] = {}

    def points(
        self, name: str, width_seconds: float, first: int, after: int, read: Callable[[int, int], dict[int, Point]]
    ) -> dict[int, Point]:
        """The points of the stretches from `first` to before `after`, which all must be over.

        `read` gives those from one stretch to before another, in order of time; what it raises comes through.
        """
        key = name, width_seconds
        line = self._lines.pop(key, None)
        if line is None or not line.first <= first <= line.after:
            line = _Line(first, first)
        if line.after < after:
            line.points |= read(line.after, after)
            line.after = after
        line.first = first
        line.points = {stretch: point for stretch, point in line.points.items() if stretch >= first}
        self._lines[key] = line
        while len(self._lines) > MOST_LINES:
            del self._lines[next(iter(self._lines))]
        return {stretch: point for stretch, point in line.points.items() if stretch < after}

    def forget(self) -> None:
        """Rows of the past may have changed."""
        self._lines.clear()
