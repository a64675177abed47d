"""The demo's clock runs as many times as fast as it is told, and no faster when the machine's clock is set."""

from __future__ import annotations

import pytest

from agent.demo.clock import FasterClock


class Machine:
    """A machine's clocks, turned by hand; waiting is written down."""

    def __init__(self) -> None:
        self.wall_now, self.steady_now = 1_796_000_000.0, 50.0
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def clock(self, speed: float) -> FasterClock:
        return FasterClock(speed, wall=lambda: self.wall_now, steady=lambda: self.steady_now, sleep=self.sleep)


@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0])
async def test_time_goes_by_as_many_times_as_fast(speed: float) -> None:
    machine = Machine()
    clock = machine.clock(speed)
    assert (clock.wall(), clock.steady()) == (1_796_000_000.0, 0.0)
    machine.steady_now += 12.0
    assert clock.steady() == pytest.approx(12.0 * speed)
    assert clock.wall() == pytest.approx(1_796_000_000.0 + 12.0 * speed)
    await clock.sleep_until(clock.steady() + 30.0)
    await clock.sleep_until(clock.steady() - 1.0)
    assert machine.waits == pytest.approx([30.0 / speed, 0.0])


def test_its_speed_is_changed_without_a_step() -> None:
    machine = Machine()
    clock = machine.clock(1.0)
    machine.steady_now += 7.0
    clock.go_at(10.0)
    assert clock.steady() == 7.0
    machine.steady_now += 2.0
    assert clock.steady() == 27.0
    assert clock.wall() == 1_796_000_027.0


def test_a_machine_whose_clock_is_set_does_not_move_the_demo() -> None:
    machine = Machine()
    clock = machine.clock(2.0)
    machine.wall_now -= 3600.0
    machine.steady_now += 1.0
    assert clock.wall() == pytest.approx(1_796_000_002.0)
