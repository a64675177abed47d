"""When the steps of a decode engine end. In: the length of a step, changed at step boundaries. Out: step <-> time.

Between two changes of its batch an engine's steps are alike, so they need not be simulated one by one: they follow a
fixed pattern of sixteen slightly different lengths, and counting them is arithmetic. The past is kept, because
the truth asks how many steps an engine had made at an earlier moment.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

PATTERN = (0.97, 1.01, 0.99, 1.0, 0.98, 1.02, 0.96, 1.0, 1.03, 0.98, 0.97, 1.11, 0.97, 1.0, 0.99, 1.02)
"""Lengths of successive steps as shares of their mean, which is 1; one in sixteen is a little longer."""

CYCLE = len(PATTERN)
_SUMS = (0.0, *accumulate(PATTERN + PATTERN))
LONGEST, SHORTEST = max(PATTERN), min(PATTERN)


class Segment:
    """Steps `first_step`, `first_step` + 1, ... of which the first begins at `start`; their mean is `step_seconds`."""

    __slots__ = ("first_step", "start", "step_seconds")

    def __init__(self, start: float, first_step: int, step_seconds: float) -> None:
        self.start = start
        self.first_step = first_step
        self.step_seconds = step_seconds

    def seconds_of(self, count: int) -> float:
        """How long the first `count` steps take together."""
        phase = self.first_step % CYCLE
        cycles, rest = divmod(count, CYCLE)
        return self.step_seconds * (cycles * CYCLE + _SUMS[phase + rest] - _SUMS[phase])

    def end_of(self, step: int) -> float:
        """When step number `step` (the segment's or a later one) ends."""
        return self.start + self.seconds_of(step + 1 - self.first_step)

    def completed(self, t: float) -> int:
        """Steps of the segment that have ended at `t`."""
        if t <= self.start:
            return 0
        phase = self.first_step % CYCLE
        steps = (t - self.start) / self.step_seconds
        cycles = int(steps / CYCLE)
        rest = bisect_right(_SUMS, steps - cycles * CYCLE + _SUMS[phase], phase + 1, phase + CYCLE) - phase - 1
        return cycles * CYCLE + rest


class StepClock:
    """One engine's steps, numbered from 0 through its whole life; idle time has none."""

    __slots__ = (
        "_busy_seconds",
        "_end_times",
        "_ends",
        "_segments",
        "_starts",
        "current",
        "frozen_at",
        "idle",
        "stopped_step",
    )

    def __init__(self, t: float) -> None:
        self.current = Segment(t, 0, 1.0)
        self.idle = True
        self.stopped_step = 0
        """While idle: how many steps were made so far."""
        self.frozen_at: float | None = None
        self._segments: list[Segment] = []
        self._starts: list[float] = []
        self._ends: list[int] = []
        self._end_times: list[float] = []
        self._busy_seconds = [0.0]
        """Time in steps before each remembered segment and, last, before the current one."""

    def begin(self, t: float, step_seconds: float, first_step: int) -> None:
        """From `t`, which is the end of step `first_step` - 1 or lies in idle time, steps take `step_seconds`."""
        self._close(t, first_step)
        self.current = Segment(t, first_step, step_seconds)
        self.idle = False

    def stop(self, t: float, first_step: int) -> None:
        """Idle from `t`, the end of step `first_step` - 1, on."""
        self._close(t, first_step)
        self.stopped_step = first_step
        self.idle = True

    def freeze(self, t: float) -> None:
        """No step ends from `t` until `thaw`."""
        self.frozen_at = t

    def thaw(self, t: float) -> None:
        """Go on: the step in which the engine stood still ends that much later, and is a segment of its own."""
        frozen_at = self.frozen_at
        assert frozen_at is not None
        step = self.step_at(frozen_at)
        self.frozen_at = None
        if self.idle:
            return
        begins = self.current.end_of(step - 1)
        length = self.current.end_of(step) - begins + (t - frozen_at)
        self.begin(begins, length / PATTERN[step % CYCLE], step)

    def step_at(self, t: float) -> int:
        """How many steps of its life the engine had completed at `t`, now or in the remembered past."""
        if not self.idle and t >= self.current.start:
            if self.frozen_at is not None and t > self.frozen_at:
                t = self.frozen_at
            return self.current.first_step + self.current.completed(t)
        index = bisect_right(self._starts, t) - 1
        if index < 0:
            return self._segments[0].first_step if self._segments else self.stopped_step
        if t >= self._end_times[index]:
            return self._ends[index]
        segment = self._segments[index]
        return min(segment.first_step + segment.completed(t), self._ends[index])

    def end_of(self, step: int) -> float:
        """When a step ends, if nothing changes before."""
        return self.current.end_of(step)

    def busy_seconds(self, completed: int) -> float:
        """Time that the first `completed` steps of its life took together, idle time left out.

        Only differences mean anything; between two steps of one request they are its decode time, without the rounding
        of unix times.
        """
        index = bisect_right(self._ends, completed - 1)
        segment = self._segments[index] if index < len(self._segments) else self.current
        return self._busy_seconds[index] + segment.seconds_of(completed - segment.first_step)

    def forget(self, before: float) -> None:
        """Forget segments that ended before `before`."""
        keep = max(0, bisect_right(self._starts, before) - 1)
        for past in (self._segments, self._starts, self._ends, self._end_times, self._busy_seconds):
            del past[:keep]

    def _close(self, t: float, first_step: int) -> None:
        if not self.idle:
            self._segments.append(self.current)
            self._starts.append(self.current.start)
            self._ends.append(first_step)
            self._end_times.append(t)
            gone = self.current.seconds_of(first_step - self.current.first_step)
            self._busy_seconds.append(self._busy_seconds[-1] + gone)
