"""Growth that load explains. In: a window's increments and the load beside them; out: the objection, or "".

An allocator keeps what the busiest moment needed: memory then follows the running maximum of load, and a day's
rise looks like a leak. So growth must go on while load makes no new maxima; where load keeps rising, growth
must be independent of how fast it rises.
"""

from __future__ import annotations

import math

from agent.indicators.memory.fit import differences
from agent.indicators.memory.history import LOAD_PEAK, Scale
from agent.indicators.memory.load_response import LoadResponse
from agent.indicators.memory.settings import INCREMENTS


def load_objection(
    scale: Scale,
    increments: list[float],
    durations: list[float],
    growth: float,
    response: LoadResponse | None,
) -> str:
    """Growth that only comes with new load maxima is a high-water mark, not a leak."""
    peaks = scale.last(LOAD_PEAK, INCREMENTS + 1)
    if not peaks[-1] > 0:
        return ""
    rate = growth / sum(durations)
    new_peaks = differences(peaks)
    calm = [i for i in range(INCREMENTS) if new_peaks[i] <= 0.01 * peaks[-1]]
    if len(calm) >= INCREMENTS // 2:
        calm_rate = sum([increments[i] for i in calm]) / sum([durations[i] for i in calm])
        if calm_rate < 0.5 * rate:
            return "load maxima"
    elif not _grows_besides(new_peaks, increments, growth):
        return "load maxima"
    if response:
        load = scale.last(response.column, INCREMENTS + 1)
        if response.rising * (load[-1] - load[0]) > 0.5 * growth and growth < response.rising * (max(load) - min(load)):
            return "load"
    return ""


def _grows_besides(new_peaks: list[float], increments: list[float], growth: float) -> bool:
    """Load kept rising to new maxima: most of the growth must be independent of how fast they rose."""
    mean_peak = sum(new_peaks) / INCREMENTS
    mean_increment = sum(increments) / INCREMENTS
    spread = sum([(p - mean_peak) ** 2 for p in new_peaks])
    if spread < (0.3 * mean_peak) ** 2 * INCREMENTS:
        return False
    per_peak = sum([(p - mean_peak) * i for p, i in zip(new_peaks, increments, strict=True)]) / spread
    residual = sum(
        [(i - mean_increment - per_peak * (p - mean_peak)) ** 2 for p, i in zip(new_peaks, increments, strict=True)]
    )
    upper = max(per_peak, 0.0) + 2 * math.sqrt(residual / (INCREMENTS - 2) / spread)
    return upper * sum(new_peaks) <= 0.5 * growth
