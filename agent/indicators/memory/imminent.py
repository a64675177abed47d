"""The last-minute rule beside the trend: this container or process is about to be killed. In: time, use and
limit; out: `ImminentOom` or None.

A leak of gigabytes per hour with little headroom ends before any trend is certain. Two ways to be imminent:
near (use is at the limit, or close to it and still rising) and fast (a straight climb to new heights that
reaches the limit within the horizon). Not judged before the server is warm: loading weights climbs faster
than any leak. A height from which use once came back by itself is no longer near: reclaim lives there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from agent.errors import StateError
from agent.indicators.memory.fit import differences
from agent.indicators.memory.settings import HOUR_SECONDS, TrendSettings

FLOORS = 7
"""Floors kept; the increments between them are what both rules look at."""


class ImminentOom(NamedTuple):
    """Why, and at which rate (bytes per second: mean, slowest and fastest recent increment)."""

    reason: str
    slope: float
    low: float
    high: float
    hours_left: float | None
    window_seconds: float


class OomWatch:
    """One per process or container. All times scale with `TrendSettings.time_scale`."""

    bin_seconds = 150.0
    horizon_seconds = 2700.0
    """`fast`: reached within this time; `near`: within four times this."""
    near_share = 0.92
    at_limit_share = 0.97
    came_back_share = 0.02
    """A fall of this share of the limit marks the height before it as survived."""
    survived_margin = 0.005
    """So much above a survived height is a new one."""
    straight_ratio = 0.8
    """Least rate in the second half of the climb over the first."""
    draw_down_factor = 1.5
    """A climb must be this many times the deepest fall seen."""

    def __init__(self, settings: TrendSettings | None = None) -> None:
        settings = settings or TrendSettings()
        self._bin_length = self.bin_seconds * settings.time_scale
        self._horizon = self.horizon_seconds * settings.time_scale
        self._warm_up = settings.warm_up_seconds * settings.time_scale
        self._begin()

    def _begin(self) -> None:
        self._warm_at: float | None = None
        self._bin_ends = -math.inf
        self._lowest = math.inf
        self._lowest_t = 0.0
        self._times: list[float] = []
        self._floors: list[float] = []
        self._peak = 0.0
        self._highest = 0.0
        self._deepest_fall = 0.0
        self._survived = 0.0
        self._climb: ImminentOom | None = None

    def restarted(self) -> None:
        """A new process: nothing of the former one is about to be killed."""
        self._begin()

    def ready(self, t_seconds: float) -> None:
        """The server became ready at `t_seconds`. What loading took and gave back is forgotten. Safe to repeat."""
        if not math.isfinite(t_seconds) or self._warm_at == t_seconds + self._warm_up:
            return
        self._warm_at = t_seconds + self._warm_up
        self._peak = self._highest = self._deepest_fall = self._survived = 0.0

    def update(self, t_seconds: float, used_bytes: float | None, limit_bytes: float | None) -> ImminentOom | None:
        """File one reading; what is imminent now. None also when use or limit is not known."""
        if used_bytes is None or not 0 < used_bytes < math.inf or not math.isfinite(t_seconds):
            return None
        if t_seconds >= self._bin_ends or t_seconds < self._bin_ends - self._bin_length:
            self._close(t_seconds, limit_bytes)
        if used_bytes < self._lowest:
            self._lowest, self._lowest_t = used_bytes, t_seconds
        if used_bytes > self._peak:
            self._peak = used_bytes
        if limit_bytes is None or limit_bytes <= 0:
            return None
        near = used_bytes >= self.near_share * limit_bytes and used_bytes > self._survived
        if not near and self._climb is None:
            return None
        if self._warm_at is None or t_seconds < self._warm_at:
            return None
        return (self._near(used_bytes, limit_bytes) if near else None) or self._fast(used_bytes, limit_bytes)

    def _close(self, now: float, limit: float | None) -> None:
        """End a bin: its lowest reading becomes a floor."""
        if self._warm_at is None:
            self._warm_at = now + self._warm_up
        if self._lowest < math.inf:
            floor, at = self._lowest, self._lowest_t
            if self._times and not 0 < at - self._times[-1] <= FLOORS * self._bin_length:
                self._times, self._floors = [], []  # the clock was set, or readings were missing
            self._times.append(at)
            self._floors.append(floor)
            del self._times[:-FLOORS], self._floors[:-FLOORS]
            self._highest = max(self._highest, floor)
            self._deepest_fall = max(self._deepest_fall, self._highest - floor)
            if limit is not None and self._peak - floor > self.came_back_share * limit:
                self._survived = self._peak * (1 + self.survived_margin)
            self._climb = self._straight_climb()
        self._lowest = math.inf
        self._bin_ends = (math.floor(now / self._bin_length) + 1) * self._bin_length

    def _rates(self) -> list[float]:
        return [growth / time for growth, time in zip(differences(self._floors), differences(self._times), strict=True)]

    def _near(self, used: float, limit: float) -> ImminentOom | None:
        rates = self._rates()
        rate = (self._floors[-1] - self._floors[0]) / (self._times[-1] - self._times[0]) if rates else 0.0
        rising = len(rates) >= 3 and rate > 0 and (limit - used) / rate < 4 * self._horizon
        if not rising and used < self.at_limit_share * limit:
            return None
        hours = max(limit - used, 0.0) / rate / HOUR_SECONDS if rate > 0 else None
        window = self._times[-1] - self._times[0] if rates else 0.0
        low, high = min(rates, default=0.0), max(rates, default=0.0)
        return ImminentOom(f"use is {used / limit:.0%} of the limit", rate, low, high, hours, window)

    def _straight_climb(self) -> ImminentOom | None:
        """The newest floors climb straight to a new height; how fast."""
        if len(self._floors) < 5 or self._floors[-1] < self._highest:
            return None
        climbed = self._floors[-1] - self._floors[0]
        if climbed < self.draw_down_factor * self._deepest_fall:
            return None
        rates = self._rates()
        half = len(rates) // 2
        first, second = sum(rates[:half]) / half, sum(rates[-half:]) / half
        slowest, fastest = min(rates), max(rates)
        if slowest <= 0 or slowest < 0.5 * fastest or second < self.straight_ratio * first:
            return None
        window = self._times[-1] - self._times[0]
        return ImminentOom("climbs straight to the limit", climbed / window, slowest, fastest, None, window)

    def _fast(self, used: float, limit: float) -> ImminentOom | None:
        climb = self._climb
        if climb is None or limit - used > climb.slope * self._horizon:
            return None
        return climb._replace(hours_left=max(limit - used, 0.0) / climb.slope / HOUR_SECONDS)

    def save(self) -> dict[str, Any]:
        """JSON-able; infinite numbers, which JSON has not, become None."""
        saved = {name: getattr(self, name) for name in _SAVED}
        saved["_lowest"] = None if self._lowest == math.inf else self._lowest
        saved["_bin_ends"] = None if self._bin_ends == -math.inf else self._bin_ends
        saved["_times"], saved["_floors"] = list(self._times), list(self._floors)
        return saved

    @classmethod
    def restore(cls, saved: dict[str, Any], settings: TrendSettings | None = None) -> OomWatch:
        """A watch that goes on from `save`; StateError when it is damaged."""
        watch = cls(settings)
        try:
            for name in _SAVED:
                setattr(watch, name, saved[name])
            watch._lowest = math.inf if saved["_lowest"] is None else float(saved["_lowest"])
            watch._bin_ends = -math.inf if saved["_bin_ends"] is None else float(saved["_bin_ends"])
            watch._times = [float(time) for time in saved["_times"]]
            watch._floors = [float(floor) for floor in saved["_floors"]]
            watch._climb = watch._straight_climb()
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"memory watch: saved history is damaged ({error!r}); it starts anew") from error
        return watch


_SAVED = (
    "_warm_at",
    "_bin_ends",
    "_lowest",
    "_lowest_t",
    "_times",
    "_floors",
    "_peak",
    "_highest",
    "_deepest_fall",
    "_survived",
)
