"""Steps of the wall clock, told apart from a process that sleeps between two readings."""

from __future__ import annotations

from agent.sources.clock import STEP_SECONDS, ClockWatch


class SleepyClock:
    """Each reading of the wall clock takes `asleep` seconds."""

    def __init__(self) -> None:
        self.now, self.ahead, self.asleep = 1000.0, 0.0, 0.0

    def wall(self) -> float:
        self.now += self.asleep
        return 1e9 + self.now + self.ahead

    def steady(self) -> float:
        return self.now

    async def sleep_until(self, steady: float) -> None:
        self.now = steady


def test_a_process_that_sleeps_between_the_readings_tells_no_step() -> None:
    clock = SleepyClock()
    watch = ClockWatch(clock)
    for asleep in (3.0, 3600.0, 0.0, 1.9):
        clock.asleep = asleep
        assert watch.look() is None


def test_a_step_that_came_while_the_process_slept_is_told_by_the_next_look() -> None:
    clock = SleepyClock()
    watch = ClockWatch(clock)
    clock.asleep, clock.ahead = 30.0, -3600.0
    assert watch.look() is None
    clock.asleep = 0.0
    step = watch.look()
    assert step is not None
    assert abs(step.step_seconds + 3600.0) < STEP_SECONDS
    assert watch.look() is None
