"""Time as sources see it. In: the machine's clocks. Out: wall time, steady time, waiting, and a step of the wall clock.

Sources get a `Clock` as an argument, so that tests turn it by hand.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from agent.model import ClockStepObservation

STEP_SECONDS = 2.0
"""A wall clock that gains or loses more than this between two looks was set; less is slewing."""


class Clock(Protocol):
    """Wall time in unix seconds, steady time in seconds from anywhere, and waiting by the steady time."""

    def wall(self) -> float:
        """Unix seconds; may be set forwards or backwards."""

    def steady(self) -> float:
        """Seconds that only go forwards."""

    async def sleep_until(self, steady: float) -> None:
        """Return once `steady()` has reached this value; at least lets other tasks run."""


class SystemClock:
    """The machine's own clocks."""

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    def steady(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep_until(self, steady: float) -> None:
        """Wait by the event loop's timer."""
        await asyncio.sleep(max(0.0, steady - time.monotonic()))


class ClockWatch:
    """Compares wall and steady time from look to look. Slow drift is followed; a step is told once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference, _, _ = self._read()

    def look(self) -> ClockStepObservation | None:
        """The step since the last look, or None."""
        difference, wall, doubt = self._read()
        step = difference - self._difference
        if doubt > STEP_SECONDS:
            return None  # this process slept between the readings: the next look tells
        self._difference = difference
        return ClockStepObservation(wall, step) if abs(step) > STEP_SECONDS else None

    def _read(self) -> tuple[float, float, float]:
        """Wall less steady time, wall time, and how long both readings took: the difference is known no better."""
        before = self._clock.steady()
        wall = self._clock.wall()
        after = self._clock.steady()
        return wall - (before + after) / 2, wall, after - before
