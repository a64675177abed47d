"""Evidence pooled over restarts. In: a window that spans several lives; out: whether their late growth agrees.

A process that is killed every few hours never shows one long window. But every life grows the same way: only
increments at ages past the warm-up count, old ages must grow as fast as younger ones, and the current life must
have shown some of it itself, or a restart into a repaired version would be accused of its predecessor's leak.
"""

from __future__ import annotations

import math

from agent.indicators.memory.fit import differences, median, scatter
from agent.indicators.memory.history import AGE, LIFE, TIME, Scale
from agent.indicators.memory.settings import INCREMENTS, Grade, TrendSettings

CURRENT_INCREMENTS = 2
CURRENT_SHARE = 0.5
"""The current life shows this many increments past the warm-up, at this share of the pooled rate or more."""


def lives_agree(
    scale: Scale, levels: list[float], rate: float, window_seconds: float, grade: Grade, settings: TrendSettings
) -> bool:
    """Whether the increments past the warm-up carry the growth by themselves.

    `levels` are the scale's adjusted levels, `rate` the window's slope in bytes per second, and
    `window_seconds` what the grade's patience asks for.
    """
    span = 2 * INCREMENTS + 1
    lives = scale.last(LIFE, span)
    ages = scale.last(AGE, span)
    durations = differences(scale.last(TIME, span))
    increments = differences(levels[-span:])
    youngest = settings.pooled_from_hours * settings.hour_seconds
    late = [
        (increments[i], durations[i], ages[i], lives[i] == lives[-1])
        for i in range(len(increments))
        if lives[i] == lives[i + 1] and ages[i] >= youngest
    ]
    if len(late) < 8:
        return False
    late = late[-INCREMENTS:]
    growths = [growth for growth, _, _, _ in late]
    times = [time for _, time, _, _ in late]
    total, seconds = sum(growths), sum(times)
    if seconds < 0.66 * window_seconds:
        return False
    pooled_rate = total / seconds
    error = (scatter(growths, times, pooled_rate) + settings.noise_floor_bytes) * math.sqrt(len(late))
    if pooled_rate < 0.7 * rate or total < grade.noise_t * error:
        return False
    if sum([growth > 0.2 * pooled_rate * time for growth, time, _, _ in late]) < 0.75 * len(late):
        return False
    current = [(growth, time) for growth, time, _, is_current in late if is_current]
    if len(current) < CURRENT_INCREMENTS or _rate(current) < CURRENT_SHARE * pooled_rate:
        return False
    middle_age = median([age for _, _, age, _ in late])
    older = [(growth, time) for growth, time, age, _ in late if age > middle_age]
    younger = [(growth, time) for growth, time, age, _ in late if age <= middle_age]
    return bool(older and younger) and _rate(older) >= grade.life_ratio * _rate(younger)


def _rate(increments: list[tuple[float, float]]) -> float:
    return sum([growth for growth, _ in increments]) / sum([time for _, time in increments])
