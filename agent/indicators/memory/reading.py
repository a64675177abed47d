"""What the memory trend says of one process. In: a finding (slope and its error), the level, limit and budget;
out: `TrendReading` with hours to the limit, as intervals throughout, and the severity that follows from them.

Bytes per hour and hours are those of the readings' clock, never scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.indicators.memory.settings import HOUR_SECONDS

TrendName = Literal["warming", "steady", "growing", "leaking", "unknown"]
Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95 % interval. An end that is not bounded, or not known, is None."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class TrendReading:
    """The judgement of one process now."""

    trend: TrendName
    reason: str
    """Evidence when growing or leaking; else what the detector waits for, or why it cannot tell."""
    level_bytes: float | None = None
    """Floor of the last five minutes; None before the first level of this life."""
    slope_bytes_per_hour: Interval | None = None
    hours_to_limit: Interval | None = None
    """None when the limit or the slope is unknown, or the slope may be 0."""
    growth_bytes: float | None = None
    """Growth over `window_seconds`; with `growing` and `leaking` only."""
    window_seconds: float | None = None
    since_seconds: float | None = None
    """How long the trend has been growing or leaking without a break."""
    age_seconds: float | None = None
    """Since this life was first seen or ready."""
    past_budget: bool = False
    """Growth since the warm-up exceeds what the caches may fill."""

    def severity(self, page_within_hours: float) -> Severity | None:
        """critical: a certain leak that may reach the limit in time, or is past the caches' budget."""
        if self.trend == "growing":
            return "warning"
        if self.trend != "leaking":
            return None
        earliest = self.hours_to_limit.low if self.hours_to_limit else None
        soon = earliest is not None and earliest <= page_within_hours
        return "critical" if soon or self.past_budget else "warning"


def hours_to_limit(level_bytes: float | None, limit_bytes: float | None, slope: Interval | None) -> Interval | None:
    """Headroom over slope. The low end uses the slope's high end; a slope that may be 0 leaves the high end open."""
    if level_bytes is None or limit_bytes is None or slope is None or not slope.value or slope.value <= 0:
        return None
    headroom = max(limit_bytes - level_bytes, 0.0)
    return Interval(
        headroom / slope.value,
        headroom / slope.high if slope.high else None,
        headroom / slope.low if slope.low and slope.low > 0 else None,
    )


def per_hour(slope: float, half_width: float) -> Interval:
    """Bytes per second with a half width, as bytes per hour."""
    return Interval(slope * HOUR_SECONDS, (slope - half_width) * HOUR_SECONDS, (slope + half_width) * HOUR_SECONDS)
