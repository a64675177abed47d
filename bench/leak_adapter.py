"""The memory trend in the shape that `leakbench.py` streams traces through. In: the bench's samples; out: an
alarm with slope and interval while the verdict stands.

    PYTHONPATH=. python ../shared/bench/leakbench.py --detector bench.leak_adapter:make --seed 1 --jobs 1

`make` alarms on `leaking` (what may page), `make_growing` on `growing` too (tickets), `make_with_oom` on
`leaking` or an imminent kill by the limit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from agent.indicators.memory import ImminentOom, OomWatch, Trend
from agent.indicators.memory.settings import HOUR_SECONDS, TrendSettings


class Alarm(NamedTuple):
    """Bytes per second, as the bench wants them."""

    slope: float
    lo: float
    hi: float
    window_s: float | None
    reason: str


class LeakDetector:
    """One process under the bench."""

    def __init__(self, settings: TrendSettings | None = None, *, growing: bool = False, oom: bool = False) -> None:
        self._trend = Trend(settings)
        self._oom = OomWatch(settings) if oom else None
        self._alarming = ("leaking", "growing") if growing else ("leaking",)
        self._limit: float | None = None
        self._budget: float | None = None

    def configure(self, meta: dict[str, Any]) -> None:
        """Limit and budget of the trace."""
        self._limit = meta["limit_bytes"]
        self._budget = meta["cache_budget_bytes"]
        self._trend.bound(self._limit, self._budget)

    def on_restart(self, t: float) -> None:
        """The start time in /proc changed."""
        self._trend.restarted(t)
        if self._oom is not None:
            self._oom.restarted()

    def update(self, t: float, rss: float, load: float | None = None) -> Alarm | None:
        """One sample; an alarm while the verdict stands."""
        trend = self._trend
        trend.update(t, rss, load)
        if trend.certainty in self._alarming:
            reading = trend.reading(t, self._limit, self._budget)
            slope = reading.slope_bytes_per_hour
            if reading.trend in self._alarming and slope is not None:
                assert slope.value is not None
                assert slope.low is not None
                assert slope.high is not None
                return Alarm(
                    slope.value / HOUR_SECONDS,
                    slope.low / HOUR_SECONDS,
                    slope.high / HOUR_SECONDS,
                    reading.window_seconds,
                    f"{reading.trend}: {reading.reason}",
                )
        if self._oom is not None:
            imminent = self._oom.update(t, rss, self._limit)
            if imminent is not None:
                return _oom_alarm(imminent)
        return None


def _oom_alarm(imminent: ImminentOom) -> Alarm:
    window = imminent.window_seconds or None
    return Alarm(imminent.slope, imminent.low, imminent.high, window, f"oom: {imminent.reason}")


def make() -> LeakDetector:
    """Alarms on `leaking`."""
    return LeakDetector()


def make_growing() -> LeakDetector:
    """Alarms on `growing` and `leaking`."""
    return LeakDetector(growing=True)


def make_with_oom() -> LeakDetector:
    """Alarms on `leaking` and on an imminent out-of-memory kill."""
    return LeakDetector(oom=True)
