"""Is the growth coming to an end? In: one scale's history (or all of them); out: whether its rate holds up.

Warm-ups, caches and allocator arenas grow ever slower, a leak does not. Two scale-free tests: within the
window, the second half must not be slower than the first; over the whole life, growth between half its age
and now is held against growth between a quarter and half. Logarithmic growth gives 0.5 there, an exponential
approach with a time constant below the age at most 0.69, square-root growth 0.71, a leak 1; and whatever
happened early in the life drops out of the comparison by itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from agent.indicators.memory.fit import DOMINATING_STEP, differences, line, without_spikes
from agent.indicators.memory.history import AGE, LIFE, TIME, History, Scale
from agent.indicators.memory.load_response import LoadResponse, adjusted_levels
from agent.indicators.memory.settings import INCREMENTS, TrendSettings


def holds_within_window(scale: Scale, response: LoadResponse | None, settings: TrendSettings) -> bool:
    """The newest window does not decline, nor is it much slower than the window before it."""
    levels = adjusted_levels(scale, response)
    times = scale.column(TIME)
    window_times = times[-INCREMENTS - 1 :]
    increments = differences(levels[-INCREMENTS - 1 :])
    durations = differences(window_times)
    half = INCREMENTS // 2
    first = sum(increments[:half]) / sum(durations[:half])
    second = sum(increments[half:]) / sum(durations[half:])
    if second < settings.halves_ratio * first:
        return False
    if second < settings.halves_ratio_significant * first and _declines(
        window_times, increments, durations, settings.decline_t
    ):
        return False
    if len(scale) < 2 * INCREMENTS + 1:
        return True
    start = -2 * INCREMENTS - 1
    if scale.at(LIFE, start) != scale.at(LIFE, -1) or scale.at(AGE, start) <= scale.at(AGE, -1) / 4:
        return True  # the window before lies in another life, or in a warm-up
    before = differences(levels[start:-INCREMENTS])
    ordered = sorted(before)
    growth_before = sum(before)
    if ordered[-1] > DOMINATING_STEP * max(ordered[-2], 1e-9):
        growth_before -= ordered[-1]
    rate_before = growth_before / (times[-INCREMENTS - 1] - times[start])
    return sum(increments) / sum(durations) >= settings.halves_ratio * rate_before


def halves_ratio(increments: list[float], durations: list[float]) -> float:
    """Rate in the second half of a window over that in its first; 0 when the first half did not grow."""
    half = len(increments) // 2
    first = sum(increments[:half]) / sum(durations[:half])
    second = sum(increments[half:]) / sum(durations[half:])
    return second / first if first > 0 else 0.0


def _declines(times: list[float], increments: list[float], durations: list[float], least_t: float) -> bool:
    """The increments' rates fall along the window with a t value beyond `least_t`."""
    middles = [time + duration / 2 for time, duration in zip(times, durations, strict=False)]
    rates = [increment / duration for increment, duration in zip(increments, durations, strict=True)]
    mean_middle = sum(middles) / INCREMENTS
    mean_rate = sum(rates) / INCREMENTS
    spread = sum([(m - mean_middle) ** 2 for m in middles])
    bend = sum([(m - mean_middle) * r for m, r in zip(middles, rates, strict=True)]) / spread
    residual = sum([(r - mean_rate - bend * (m - mean_middle)) ** 2 for m, r in zip(middles, rates, strict=True)])
    return bend / (math.sqrt(residual / (INCREMENTS - 2) / spread) + 1e-12) < -least_t


class LifeRates:
    """Growth rates in the second quarter and in the second half of the current life, with errors."""

    __slots__ = ("early", "early_error", "late", "late_error")

    def __init__(self, early: float, early_error: float, late: float, late_error: float) -> None:
        self.early, self.early_error = early, early_error
        self.late, self.late_error = late, late_error

    def hold(self, ratio: float, sure_ratio: float) -> bool:
        """Late growth is at least `ratio` of early growth, and `sure_ratio` with one standard error to spare."""
        if self.late < ratio * self.early:
            return False
        return self.late - sure_ratio * self.early > math.hypot(self.late_error, sure_ratio * self.early_error)


def life_rates(history: History, life: float, response: LoadResponse | None) -> LifeRates | None:
    """The comparison on the finest scale that still holds the whole life; None when there is too little of it."""
    # Whole means: nothing was ever dropped, or what is left still begins in an earlier life.
    scale = next((s for s in history.scales if s.reaches_start or s.at(LIFE, 0) != life), None)
    if scale is None or len(scale) < 9:
        return None
    first = bisect_left(scale.column(LIFE), life)
    ages = scale.column(AGE)[first:]
    if len(ages) < 9:
        return None
    levels = without_spikes(adjusted_levels(scale, response)[first:])
    half = bisect_left(ages, ages[-1] / 2)
    quarter = min(bisect_left(ages, ages[-1] / 4), half - 1)
    if quarter < 0 or half <= quarter or half >= len(ages) - 1:
        return None
    early = line(ages[quarter : half + 1], levels[quarter : half + 1])
    late = line(ages[half:], levels[half:])
    return LifeRates(*early, *late)
