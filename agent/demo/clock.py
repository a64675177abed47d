"""The demo's time: the machine's, or that many times as fast. In: a speed. Out: wall time, steady time, waiting.

It has the form of the clocks that sources are given, so that the fleet and pdwatch live in the same time. Wall time is
read once, at the start, and then follows steady time: a machine's clock that is set moves neither of the two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class FasterClock:
    """`speed` seconds of the demo go by in each second of the machine; the demo begins now."""

    def __init__(
        self,
        speed: float = 1.0,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._speed = speed
        self._steady, self._sleep = steady, sleep
        self._began_wall, self._since, self._before = wall(), steady(), 0.0

    def wall(self) -> float:
        """Unix seconds in the demo; ahead of the machine's from the first moment on when `speed` is above 1."""
        return self._began_wall + self.steady()

    def steady(self) -> float:
        """Seconds of the demo since it began."""
        return self._before + (self._steady() - self._since) * self._speed

    def go_at(self, speed: float) -> None:
        """From now on time goes by so many times as fast; whoever waits already is woken as was reckoned before."""
        self._before, self._since, self._speed = self.steady(), self._steady(), speed

    async def sleep_until(self, steady: float) -> None:
        """Return once `steady()` has reached this value; at least lets other tasks run."""
        await self._sleep(max(0.0, steady - self.steady()) / self._speed)
