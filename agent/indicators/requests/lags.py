"""How far the moments of spans may be off. In: when each span says it ended, and when it came. Out: the longest lag.

Nobody knows a host's clock; but a leg really ended before its span came, and by that host's clock when the span says.
So the distance between the two bounds what clock and export together can have displaced it by.
"""

from __future__ import annotations

import math

LEAST_SECONDS = 5.0
"""SDKs export every five seconds: a span that came at once does not say that the next one will."""
MINUTES_KEPT = 370


class Lags:
    """The longest lag of every minute, for a little over six hours."""

    def __init__(self) -> None:
        self._longest: dict[int, float] = {}

    def take(self, t: float, end: float) -> None:
        """A span that came at `t`."""
        minute, lag = int(t // 60.0), abs(t - end)
        if lag > self._longest.get(minute, -1.0):
            self._longest[minute] = lag
            while len(self._longest) > MINUTES_KEPT:
                del self._longest[next(iter(self._longest))]

    def longest(self, since: float) -> float:
        """Of the spans that have come since then, in seconds, and one more export's time."""
        began = int(since // 60.0)
        return max((lag for minute, lag in self._longest.items() if minute >= began), default=0.0) + LEAST_SECONDS

    def shift(self, seconds: float) -> None:
        """The wall clock was set: minutes move along, rounded to the later one."""
        moved = {minute + math.ceil(seconds / 60.0): lag for minute, lag in self._longest.items()}
        self._longest = dict(sorted(moved.items()))
