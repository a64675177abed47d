"""From single readings to five-minute levels. In: (time, bytes or None, load or None) as the sampler wrote
them, restarts and readiness; out: one `Level` per bin, on a clock of its own that never runs backwards.

A level is the mean of the lowest quarter of the readings in its bin: spikes, huge prompts and collections
only ever add to resident memory, while a leak lifts the floor. Readings that say nothing (None, NaN, 0 of
a dying process) are left out. Lives of one process identity are spliced: a restart neither falls nor rises
and takes no time, so that growth can be followed across it.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any, NamedTuple

from agent.indicators.memory.settings import TrendSettings

FAST_LAG_BINS = 2.0
SLOW_LAG_BINS = 8.0
MOST_BYTES = 1e18
MOST_LOAD = 1e15
"""Beyond these a number is no reading."""
LONGEST_GAP_HOURS = 720.0
"""A jump beyond this is a clock that was set, not a month without readings."""
RESTART_DROP = 0.4
"""A level below this share of the one before is a new process that nobody announced."""


class Level(NamedTuple):
    """The floor of memory in one bin. Times are seconds of the spliced clock, `age` of the life's own."""

    time: float
    level: float
    load: float
    load_fast: float
    load_slow: float
    load_peak: float
    age: float
    life: float


class LevelBuilder:
    """Collects readings into bins. One per process identity; `add` costs about a microsecond."""

    def __init__(self, settings: TrendSettings) -> None:
        scale = settings.time_scale
        self._bin = settings.bin_seconds * scale
        self._warm_up = settings.warm_up_seconds * scale
        self._fast = FAST_LAG_BINS * self._bin
        self._slow = SLOW_LAG_BINS * self._bin
        self._longest_gap = LONGEST_GAP_HOURS * settings.hour_seconds
        self.clock_seconds = 0.0
        self.last_t: float | None = None
        self.life = 0
        self.early_floor_bytes: float | None = None
        self.usual_interval_seconds = 0.0
        self._lift_bytes = 0.0
        self._cut_bins = 0
        self._spliced_level: float | None = None
        self._spliced_bin = -1
        self._ready_t: float | None = None
        self._begin_life()

    def _begin_life(self) -> None:
        self._splice = self._spliced_level is not None
        self._bin_number: int | None = None
        self._bin_end = -inf
        self._readings: list[float] = []
        self._loads: list[float] = []
        self._load_gaps: list[float] = []
        self.last_bytes: float | None = None
        self._born: float | None = None
        self._warm_at = 0.0
        self.levels_in_life = 0
        self._load_fast: float | None = None
        self._load_slow = 0.0
        self._load_peak = 0.0
        self.early_floor_bytes = None

    def restarted(self) -> None:
        """The next reading belongs to a new process."""
        self.life += 1
        self._ready_t = None
        self._begin_life()

    def ready(self, t_seconds: float) -> None:
        """The server became ready at `t_seconds`: the clock of the warm-up starts there. Safe to repeat."""
        if self._ready_t == t_seconds or not isfinite(t_seconds):
            return
        self._ready_t = t_seconds
        if self._born is None or self.last_t is None:
            return  # resolved at the life's first reading
        ready = self.clock_seconds + (t_seconds - self.last_t)
        if ready <= self._born:
            self._warm_at = min(self._warm_at, ready + self._warm_up)
            return
        if self.levels_in_life:
            # What was seen before readiness was loading: it must not be compared with what follows.
            self.life += 1
            self._begin_life()
        self._born = min(ready, self.clock_seconds)
        self._warm_at = self._born + self._warm_up

    @property
    def warm(self) -> bool:
        """Whether the current life is past its warm-up."""
        return self._born is not None and self.clock_seconds >= self._warm_at

    @property
    def lowest_now_bytes(self) -> float | None:
        """Lowest reading of the bin that is still open: the floor as far as it is known now."""
        return min(self._readings, default=self.last_bytes)

    @property
    def age_seconds(self) -> float:
        """Seconds since the life was first seen or ready, whichever came later."""
        return self.clock_seconds - self._born if self._born is not None else 0.0

    def add(self, t_seconds: float, value_bytes: float | None, load: float | None) -> Level | None:
        """File one reading; the level of the bin before, when this reading opened a new bin."""
        if value_bytes is None or not 0.0 < value_bytes < MOST_BYTES or not isfinite(t_seconds):
            return None
        passed = 0.0
        if self.last_t is not None:
            passed = t_seconds - self.last_t
            usual = self.usual_interval_seconds
            if 0.0 < passed < 4 * usual:
                self.usual_interval_seconds = usual + 0.1 * (passed - usual)
            elif not 0 <= passed <= self._longest_gap:  # the clock was set: readings keep their usual distance
                passed = usual
            elif not usual:
                self.usual_interval_seconds = passed
            self.clock_seconds += passed
        self.last_t = t_seconds
        self.last_bytes = value_bytes
        level = self._turn_bin() if self.clock_seconds >= self._bin_end else None
        self._readings.append(value_bytes)
        if load is not None and 0.0 <= load < MOST_LOAD:
            self._loads.append(load)
            self._load_gaps.append(passed)
        return level

    def _turn_bin(self) -> Level | None:
        """Open the bin of the present reading, and close the one before if this life has one."""
        now = self.clock_seconds
        before = self._bin_number
        number = int(now // self._bin)
        self._bin_number = number
        self._bin_end = (number + 1) * self._bin
        if self._born is None:
            self._born = now
            self._warm_at = now + self._warm_up
            if self._ready_t is not None and self.last_t is not None:
                self._warm_at -= max(self.last_t - self._ready_t, 0.0)
        if before is None:
            return None
        life = self.life
        level = self._close(before)
        if self.life != life:  # the bin showed a process that nobody announced: it began with the next one
            self._bin_number = number
            self._bin_end = (number + 1) * self._bin
            self._born = number * self._bin
            self._warm_at = self._born + self._warm_up
        return level

    def _mean_loads(self) -> tuple[float, float, float, float]:
        """Means over the bin: of load, of load with a short and a long lag, and of its highest so far."""
        count = len(self._loads)
        if not count:
            return 0.0, 0.0, 0.0, 0.0
        fast, slow, peak = self._load_fast, self._load_slow, self._load_peak
        if fast is None:
            fast = slow = self._loads[0]
        total_fast = total_slow = total_peak = 0.0
        for load, passed in zip(self._loads, self._load_gaps, strict=True):
            fast += (load - fast) * min(passed / self._fast, 1.0)
            slow += (load - slow) * min(passed / self._slow, 1.0)
            if fast > peak:
                peak = fast
            total_fast += fast
            total_slow += slow
            total_peak += peak
        mean = sum(self._loads) / count
        self._load_fast, self._load_slow, self._load_peak = fast, slow, peak
        self._loads = []
        self._load_gaps = []
        return mean, total_fast / count, total_slow / count, total_peak / count

    def _close(self, number: int) -> Level | None:
        readings = self._readings
        if not readings:
            return None
        self._readings = []
        readings.sort()
        lowest = readings[: (len(readings) + 3) // 4]
        floor = sum(lowest) / len(lowest)
        before = self._spliced_level
        if before is not None and not self._splice and floor < RESTART_DROP * (before - self._lift_bytes):
            self.restarted()
            return None
        assert self._born is not None
        middle = (number + 0.5) * self._bin
        age = middle - self._born
        mean, fast, slow, peak = self._mean_loads()
        if middle < self._warm_at:
            return None
        if self.early_floor_bytes is None or (
            floor < self.early_floor_bytes and middle < self._warm_at + self._warm_up
        ):
            self.early_floor_bytes = floor
        if self._splice and before is not None:
            self._splice = False
            self._lift_bytes = before - floor
            self._cut_bins = number - (self._spliced_bin + 1)
        self._spliced_level = floor + self._lift_bytes
        self._spliced_bin = number - self._cut_bins
        self.levels_in_life += 1
        time = (self._spliced_bin + 0.5) * self._bin
        return Level(time, self._spliced_level, mean, fast, slow, peak, age, float(self.life))

    def save(self) -> dict[str, Any]:
        """Everything that `restore` needs, JSON-able."""
        return {name: _copy(value) for name, value in vars(self).items() if name not in _DERIVED}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `save` returned; KeyError or TypeError when it is not that."""
        for name in vars(self):
            if name not in _DERIVED:
                setattr(self, name, _copy(saved[name]))


def _copy(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


_DERIVED = frozenset({"_bin", "_warm_up", "_fast", "_slow", "_longest_gap"})
