"""A straight climb that needs no hour. In: the five-minute levels, limit and budget; out: a `Finding` or None.

A process that eats its headroom within hours is dead before twelve sub-windows have passed. Half an hour may
decide when the climb is so straight, so steep and so free of noise that nothing benign looks like it: a
warm-up or a filling cache bends within that time, and requests in flight come with load. Every threshold
here is therefore much stricter than in judge.py.
"""

from __future__ import annotations

import math

from agent.indicators.memory.fit import deepest_draw_down, differences, least_squares_slope, scatter
from agent.indicators.memory.history import LEVEL, LIFE, LOAD_FAST, LOAD_PEAK, TIME, History
from agent.indicators.memory.judge import Bounds, Finding, within_budget
from agent.indicators.memory.settings import TrendSettings

CLIMB_INCREMENTS = 5
HEADROOM_HOURS = 3.0
"""Only when the limit is nearer than this."""
LEAST_T = 15.0
DRAW_DOWN_FACTOR = 2.0
SLOWEST_SHARE = 0.8
"""Slowest increment over the fastest."""
HALVES_RATIO = 0.93
"""Rate of the last two increments over that of the first two."""
LOAD_CHANGE = 0.25
INTERVAL_FACTOR = 4.5
"""Wider than with twelve increments: Student's t with four degrees of freedom, and a safety of 1.6."""


def straight_climb(history: History, bounds: Bounds, settings: TrendSettings) -> Finding | None:
    """Judge the newest five increments of the finest scale."""
    scale = history.scales[0]
    count = CLIMB_INCREMENTS + 1
    if bounds.limit_bytes is None or len(scale) < count:
        return None
    levels = scale.last(LEVEL, count)
    growth = levels[-1] - levels[0]
    if growth < 2 * settings.min_growth_bytes:
        return None
    times = scale.last(TIME, count)
    window = times[-1] - times[0]
    rate = growth / window
    headroom = max(bounds.limit_bytes - bounds.level_bytes, 0.0)
    if headroom / rate > HEADROOM_HOURS * settings.hour_seconds:
        return None
    if window > 1.3 * CLIMB_INCREMENTS * settings.bin_seconds * settings.time_scale:
        return None  # a gap
    if scale.at(LIFE, -count) != scale.at(LIFE, -1):
        return None
    if within_budget(bounds):
        return None
    increments, durations = differences(levels), differences(times)
    rates = [increment / duration for increment, duration in zip(increments, durations, strict=True)]
    if min(rates) < SLOWEST_SHARE * max(rates) or rates[-1] + rates[-2] < HALVES_RATIO * (rates[0] + rates[1]):
        return None
    deviation = scatter(increments, durations, rate) + settings.noise_floor_bytes
    if growth < LEAST_T * deviation * math.sqrt(CLIMB_INCREMENTS):
        return None
    if growth < DRAW_DOWN_FACTOR * deepest_draw_down(scale.column(LEVEL)):
        return None
    if not _load_is_calm(scale.last(LOAD_FAST, count), scale.last(LOAD_PEAK, count)):
        return None
    half_width = INTERVAL_FACTOR * deviation * math.sqrt(CLIMB_INCREMENTS) / window
    return Finding("leaking", "", least_squares_slope(times, levels), half_width, window, growth)


def _load_is_calm(load: list[float], peak: list[float]) -> bool:
    """Load neither changed much nor reached new heights; load that is not known is calm."""
    if not peak[-1] > 0:
        return True
    return max(load) - min(load) <= LOAD_CHANGE * peak[-1] and peak[-1] - peak[0] <= 0.1 * peak[-1]
