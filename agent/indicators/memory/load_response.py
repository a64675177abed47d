"""How memory follows load. In: one scale's history; out: the response, and levels with it taken out.

Buffers and requests in flight make memory breathe with traffic. The response is found from increments,
apart for rising and falling load: an allocator that keeps what the busiest moment needed falls less than it
rose, and taking the larger response out of a fall would turn a high-water mark into growth.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.indicators.memory.fit import differences, median
from agent.indicators.memory.history import LEVEL, LOAD, LOAD_FAST, LOAD_PEAK, LOAD_SLOW, TIME, Scale


class LoadResponse(NamedTuple):
    """Bytes per unit of load, for the load column that explains most."""

    column: int
    rising: float
    falling: float


def load_response(scale: Scale, least_gain: float) -> LoadResponse | None:
    """The response, or None when load is unknown or explains less than `least_gain` of the movement."""
    if len(scale) < 8 or not scale.at(LOAD_PEAK, -1) > 0:
        return None
    increments = differences(scale.column(LEVEL))
    durations = differences(scale.column(TIME))
    drift = median([i / d for i, d in zip(increments, durations, strict=True)])
    moves = [i - drift * d for i, d in zip(increments, durations, strict=True)]
    total = sum([abs(move) for move in moves])
    if total <= 0:
        return None
    best: LoadResponse | None = None
    best_gain = least_gain
    for column in (LOAD, LOAD_FAST, LOAD_SLOW):
        changes = differences(scale.column(column))
        typical = max(median([abs(change) for change in changes]), 1e-9)
        up: list[float] = []
        down: list[float] = []
        for move, change in zip(moves, changes, strict=True):
            if change >= typical:
                up.append(move / change)
            elif -change >= typical:
                down.append(move / change)
        if len(up) + len(down) < 4:
            continue
        both = median(up + down)
        if both <= 0:
            continue
        left = sum([abs(move - both * change) for move, change in zip(moves, changes, strict=True)])
        gain = 1 - left / total
        if gain >= best_gain:
            rising = median(up) if len(up) >= 3 else both
            falling = median(down) if len(down) >= 3 else 0.0
            best_gain = gain
            best = LoadResponse(column, max(rising, falling, 0.0), max(min(rising, falling), 0.0))
    return best


def adjusted_levels(scale: Scale, response: LoadResponse | None) -> list[float]:
    """The scale's levels with the response to load taken out."""
    levels = scale.column(LEVEL)
    if response is None or not scale.at(LOAD_PEAK, -1) > 0:
        return levels
    taken = 0.0
    for index, change in enumerate(differences(scale.column(response.column)), start=1):
        taken += (response.rising if change > 0 else response.falling) * change
        levels[index] -= taken
    return levels
