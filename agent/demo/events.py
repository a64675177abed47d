"""What happens when. In: actions with their moment. Out: they are done in order of time, ties as asked for."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class Events:
    """A queue of actions in virtual time. An action is called with its moment and its argument."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Callable[[float, Any], None], Any]] = []
        self._sequence = 0

    def at(self, t: float, action: Callable[[float, T], None], argument: T) -> None:
        """Do `action(t, argument)` at `t`, or now when that is past."""
        self._sequence += 1
        heappush(self._heap, (max(t, self.now), self._sequence, action, argument))

    def run(self, until: float) -> None:
        """Do everything up to and including `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            t, _, action, argument = heappop(heap)
            self.now = t
            action(t, argument)
        self.now = max(self.now, until)
