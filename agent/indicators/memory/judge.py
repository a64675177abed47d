"""The tests a window must pass before growth is called real. In: the history, a scale whose sub-window just
closed, the limit and the caches' budget; out: a `Finding` with the grade reached, the slope and its interval,
or the name of the first test that objects.

Every test answers one benign explanation: patience (it may stop), size, cache budget, steps, noise, saw-tooth
(draw-down), load, levelling off, restarts. The order is by cost. Growth must pass all of them.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from agent.indicators.memory.fit import deepest_draw_down, differences, least_squares_slope, scatter
from agent.indicators.memory.history import AGE, LEVEL, LIFE, LOAD_FAST, LOAD_PEAK, TIME, History, Scale
from agent.indicators.memory.levelling import LifeRates, halves_ratio, holds_within_window, life_rates
from agent.indicators.memory.lives import lives_agree
from agent.indicators.memory.load_maxima import load_objection
from agent.indicators.memory.load_response import LoadResponse, adjusted_levels, load_response
from agent.indicators.memory.settings import INCREMENTS, Grade, TrendSettings

Certainty = Literal["growing", "leaking"]

GAP_FACTOR = 1.8
"""A window that took this much longer than its sub-windows has a hole."""
PATIENCE_SLACK = 0.95
"""Windows come in steps and may be short by a sub-window's edge."""
RAW_WINDOW_HOURS = 20.0
"""Below this, growth must also hold up without load taken out: a day's rise is not yet seen from both sides."""
RAW_LIFE_RATIOS = (0.75, 0.65)
BUDGET_MARGIN = 1.05
"""Caches overshoot their configured size by their own bookkeeping."""


class Bounds(NamedTuple):
    """What growth is held against. None: not known."""

    level_bytes: float
    limit_bytes: float | None
    budget_bytes: float | None
    early_floor_bytes: float | None
    """Level at the end of the warm-up: what caches have filled since is measured from here."""


class Finding(NamedTuple):
    """One window's outcome. Rates in bytes per second of the readings' clock."""

    certainty: Certainty | None
    objection: str
    slope: float = 0.0
    half_width: float = 0.0
    window_seconds: float = 0.0
    growth_bytes: float = 0.0


def within_budget(bounds: Bounds) -> bool:
    """Everything that grew since the warm-up may be what the caches were allowed."""
    if not bounds.budget_bytes or bounds.early_floor_bytes is None:
        return False
    return bounds.level_bytes - bounds.early_floor_bytes < BUDGET_MARGIN * bounds.budget_bytes


def patience_seconds(grade: Grade, rate: float, bounds: Bounds, settings: TrendSettings) -> float:
    """How long a window must be: a share of the time to the limit, so that waiting is free when that is far."""
    longest = grade.patience_hours * settings.hour_seconds
    if bounds.limit_bytes is None:
        return longest
    headroom = max(bounds.limit_bytes - bounds.level_bytes, 0.0)
    wanted = headroom / rate / grade.headroom_share
    return min(longest, max(grade.patience_floor_hours * settings.hour_seconds, wanted))


def worth_judging(scale: Scale, bounds: Bounds, settings: TrendSettings) -> bool:
    """A cheap look at the raw window, which spares most processes the rest."""
    if len(scale) <= INCREMENTS:
        return False
    growth = scale.at(LEVEL, -1) - scale.at(LEVEL, -INCREMENTS - 1)
    if growth < 0.6 * settings.min_growth_bytes:
        return False
    window = scale.at(TIME, -1) - scale.at(TIME, -INCREMENTS - 1)
    return window >= PATIENCE_SLACK * patience_seconds(settings.quickest, 2 * growth / window, bounds, settings)


def judge(history: History, index: int, bounds: Bounds, settings: TrendSettings) -> Finding:
    """Put the newest window of one scale to every test, cheap ones first."""
    scale = history.scales[index]
    times = scale.last(TIME, INCREMENTS + 1)
    window = times[-1] - times[0]
    if window > GAP_FACTOR * INCREMENTS * scale.bins * settings.bin_seconds * settings.time_scale:
        return Finding(None, "gap")
    if within_budget(bounds):
        return Finding(None, "cache budget")
    judged_raw = window < RAW_WINDOW_HOURS * settings.hour_seconds
    if judged_raw and not holds_within_window(scale, None, settings):
        return Finding(None, "levelling (raw)")
    response = load_response(scale, settings.response_gain)
    all_levels = adjusted_levels(scale, response)
    levels = all_levels[-INCREMENTS - 1 :]
    increments, durations = differences(levels), differences(times)
    growth = levels[-1] - levels[0]
    rate = growth / window
    raw_growth = scale.at(LEVEL, -1) - scale.at(LEVEL, -INCREMENTS - 1)
    objection = _size(growth, raw_growth, rate, settings)
    if objection:
        return Finding(None, objection)
    deviation = scatter(increments, durations, rate) + settings.noise_floor_bytes
    noise_t = growth / (deviation * math.sqrt(INCREMENTS))
    low, high = settings.straight_halves
    halves = halves_ratio(increments, durations)
    straight = response is None and low <= halves <= high
    undisturbed = _is_undisturbed(scale, window, settings)
    ways = [
        way
        for way in _all_ways(settings)
        if noise_t >= way[1].noise_t
        and (straight or not way[1].straight)
        and (undisturbed or not way[1].undisturbed)
        and window >= PATIENCE_SLACK * patience_seconds(way[1], rate, bounds, settings)
    ]
    if not ways:
        return Finding(None, "noise or patience")
    ways = [way for way in ways if _is_sustained(increments, growth, way[1])]
    if not ways:
        return Finding(None, "steps")
    fall = deepest_draw_down(all_levels)
    ways = [way for way in ways if growth >= way[1].draw_down_factor * fall]
    if not ways:
        return Finding(None, "draw-down")
    objection = load_objection(scale, increments, durations, growth, response) or _levelling(
        history, index, response, settings
    )
    if objection:
        return Finding(None, objection)
    life = scale.at(LIFE, -1)
    if scale.at(LIFE, -INCREMENTS - 1) != life:
        ways = [
            way
            for way in ways
            if not (way[1].straight or way[1].undisturbed)
            and lives_agree(scale, all_levels, rate, patience_seconds(way[1], rate, bounds, settings), way[1], settings)
        ]
        objection = "restarts"
    elif response and judged_raw and not _raw_life_holds(life_rates(history, life, None)):
        ways, objection = [], "levelling over the life (raw)"
    else:
        rates = life_rates(history, life, response)
        ways = [way for way in ways if _life_holds(rates, halves, way[1], settings)]
        objection = "levelling over the life"
    if not ways:
        return Finding(None, objection)
    slope = least_squares_slope(times, levels)
    half_width = settings.interval_factor * deviation * math.sqrt(INCREMENTS) / window
    return Finding(ways[0][0], "", slope, half_width, window, growth)


def _all_ways(settings: TrendSettings) -> list[tuple[Certainty, Grade]]:
    """Every way to a verdict, the certain ones first."""
    ways: list[tuple[Certainty, Grade]] = [("leaking", grade) for grade in settings.leaking]
    return ways + [("growing", grade) for grade in settings.growing]


def _size(growth: float, raw_growth: float, rate: float, settings: TrendSettings) -> str:
    if growth < settings.min_growth_bytes:
        return "small"
    if raw_growth < 0.5 * growth:
        return "load adjustment alone"
    return "slow" if rate * settings.hour_seconds < settings.min_slope_bytes_per_hour else ""


def _is_undisturbed(scale: Scale, window: float, settings: TrendSettings) -> bool:
    """Load is known and was constant for as long as this scale remembers, and the window is most of a young life."""
    if window < settings.undisturbed_share * scale.at(AGE, -1):
        return False
    if window > settings.undisturbed_hours * settings.hour_seconds:
        return False
    peak = scale.at(LOAD_PEAK, -1)
    load = scale.column(LOAD_FAST)
    return peak > 0 and max(load) - min(load) <= settings.constant_load_range * peak


def _raw_life_holds(rates: LifeRates | None) -> bool:
    return rates is None or rates.hold(*RAW_LIFE_RATIOS)


def _life_holds(rates: LifeRates | None, halves: float, grade: Grade, settings: TrendSettings) -> bool:
    if rates is None:
        return not (grade.straight or grade.undisturbed)
    if grade.straight and not 0 < rates.late <= settings.straight_life_ratio * rates.early:
        return False
    if grade.undisturbed and rates.late > settings.undisturbed_life_ratio_most * rates.early:
        return False
    if rates.hold(grade.life_ratio, grade.life_ratio_sure):
        return True
    halves_agree = grade.undisturbed and halves >= grade.life_ratio
    return halves_agree and rates.hold(settings.undisturbed_life_ratio, grade.life_ratio_sure)


def _is_sustained(increments: list[float], growth: float, grade: Grade) -> bool:
    """Growth comes from most of the increments, not from one or two events."""
    ordered = sorted(increments)
    if growth - ordered[-1] - ordered[-2] < grade.kept_without_two_largest * growth:
        return False
    return sum([increment > 0.2 * growth / INCREMENTS for increment in increments]) >= grade.rising_increments


def _levelling(history: History, index: int, response: LoadResponse | None, settings: TrendSettings) -> str:
    """The rate holds up within the window, and on every coarser scale."""
    for scale in history.scales[index:]:
        if len(scale) <= INCREMENTS:
            break
        if not holds_within_window(scale, response, settings):
            return "levelling"
    return ""
