"""The memory trend of one process. In: readings, restarts and readiness as they come, and the limit and the
caches' budget; out: `TrendReading`: warming, steady, growing, leaking or unknown, how fast, and when it ends.

`growing` is real and sustained but could still stop; `leaking` is certain whatever the limit. A verdict stands
until its growth stops, is given back, or the process is replaced; evidence of former lives is kept.
No clock and no I/O: times are arguments. See docs/memory.md for how it judges and where it fails.
"""

from __future__ import annotations

from typing import Any

from agent.errors import StateError
from agent.indicators.memory.fit import differences, least_squares_slope, scatter
from agent.indicators.memory.history import LEVEL, LIFE, TIME, History
from agent.indicators.memory.judge import Bounds, Finding, judge, within_budget, worth_judging
from agent.indicators.memory.levels import Level, LevelBuilder
from agent.indicators.memory.reading import Interval, TrendName, TrendReading, hours_to_limit, per_hour
from agent.indicators.memory.settings import HOUR_SECONDS, INCREMENTS, MB, TrendSettings
from agent.indicators.memory.straight import straight_climb

SAVE_VERSION = 2
STOPPED_SHARE = 0.3
"""Growth since the last confirmation below this share of the slope counts as stopped."""
LONGEST_HOLD_HOURS = 8.0
"""Growth that stopped is waited for as long as its window was, but no longer than this."""
GIVEN_BACK_SHARE = 0.5
"""A fall of this share of the growth found ends the verdict at once."""


class Trend:
    """Follows one process identity through its lives. Bounded at about 90 kB, whatever its age."""

    def __init__(self, settings: TrendSettings | None = None) -> None:
        self.settings = settings or TrendSettings()
        self._levels = LevelBuilder(self.settings)
        self._history = History(self.settings.bin_seconds * self.settings.time_scale)
        self._limit_bytes: float | None = None
        self._budget_bytes: float | None = None
        self._last: Level | None = None
        self._finding: Finding | None = None
        self._found_at = 0.0
        self._confirmed_at = 0.0
        self._confirmed_level = 0.0
        self._objection = ""
        self._estimate: Interval | None = None
        self._estimate_at = -1.0

    def update(self, t_seconds: float, value_bytes: float | None, load: float | None = None) -> None:
        """File one reading: seconds, bytes (None or 0 when it failed), load in any constant unit or None."""
        life = self._levels.life
        level = self._levels.add(t_seconds, value_bytes, load)
        if self._levels.life != life:
            self._forget_finding()
        if level is not None:
            self._judge(level)

    def restarted(self, t_seconds: float) -> None:
        """A new process takes over this identity at `t_seconds`; its readings follow."""
        del t_seconds  # the life begins with its first reading, which may come much later
        self._levels.restarted()
        self._forget_finding()

    def ready(self, t_seconds: float) -> None:
        """The server became ready: warm-up is counted from here. May be repeated with the same time."""
        life = self._levels.life
        self._levels.ready(t_seconds)
        if self._levels.life != life:
            self._forget_finding()

    def bound(self, limit_bytes: float | None, budget_bytes: float | None) -> None:
        """What growth is held against from now on; None when it is not known."""
        self._limit_bytes = limit_bytes if limit_bytes is not None and limit_bytes > 0 else None
        self._budget_bytes = budget_bytes if budget_bytes is not None and budget_bytes > 0 else None

    @property
    def certainty(self) -> str | None:
        """`growing`, `leaking` or None: the verdict without the rest, for callers that ask at every reading."""
        return self._finding.certainty if self._finding else None

    def reading(
        self, now_seconds: float, limit_bytes: float | None = None, budget_bytes: float | None = None
    ) -> TrendReading:
        """The judgement at `now_seconds`. The bounds given here also hold for the updates that follow."""
        self.bound(limit_bytes, budget_bytes)
        levels = self._levels
        last = self._last if self._last is not None and self._last.life == levels.life else None
        stale_after = max(
            self.settings.stale_after_seconds * self.settings.time_scale, 4 * levels.usual_interval_seconds
        )
        name: TrendName
        if levels.last_t is None:
            return TrendReading("unknown", "no reading yet")
        if now_seconds - levels.last_t > stale_after:
            silent = (now_seconds - levels.last_t) / 60
            return TrendReading("unknown", f"no valid reading for {silent:.0f} min")
        level = levels.lowest_now_bytes
        finding = self._finding
        bounds = Bounds(level or 0.0, self._limit_bytes, self._budget_bytes, levels.early_floor_bytes)
        past_budget = (
            self._budget_bytes is not None and levels.early_floor_bytes is not None and not within_budget(bounds)
        )
        if finding is not None and finding.certainty is not None:
            slope = per_hour(finding.slope, finding.half_width)
            return TrendReading(
                finding.certainty,
                f"{finding.growth_bytes / MB:.0f} MB in {finding.window_seconds / HOUR_SECONDS:.2g} h",
                level,
                slope,
                hours_to_limit(level, limit_bytes, slope),
                finding.growth_bytes,
                finding.window_seconds,
                levels.clock_seconds - self._found_at,
                levels.age_seconds,
                past_budget,
            )
        judged = last is not None and levels.levels_in_life > INCREMENTS
        name = "steady" if judged else "warming"
        estimate = self._slope_estimate() if judged else None
        grows = estimate is not None and estimate.low is not None and estimate.low > 0
        return TrendReading(
            name,
            (self._objection or "no growth") if judged else "warm-up, or too few readings yet",
            level,
            estimate,
            hours_to_limit(level, limit_bytes, estimate) if grows else None,
            age_seconds=levels.age_seconds,
            past_budget=past_budget,
        )

    def save(self) -> dict[str, Any]:
        """JSON-able; `restore` of it goes on as if nothing had happened."""
        return {
            "version": SAVE_VERSION,
            "time_scale": self.settings.time_scale,
            "levels": self._levels.save(),
            "history": self._history.save(),
            "limit_bytes": self._limit_bytes,
            "budget_bytes": self._budget_bytes,
            "last": list(self._last) if self._last is not None else None,
            "finding": list(self._finding) if self._finding is not None else None,
            "found_at": self._found_at,
            "confirmed_at": self._confirmed_at,
            "confirmed_level": self._confirmed_level,
            "objection": self._objection,
        }

    @classmethod
    def restore(cls, saved: dict[str, Any], settings: TrendSettings | None = None) -> Trend:
        """A trend that goes on from `save`. StateError when it is damaged or of another version or time scale."""
        trend = cls(settings)
        try:
            if saved["version"] != SAVE_VERSION or saved["time_scale"] != trend.settings.time_scale:
                raise StateError("memory trend: saved with another version or time scale; history starts anew")
            trend._levels.restore(saved["levels"])
            trend._history.restore(saved["history"])
            trend.bound(saved["limit_bytes"], saved["budget_bytes"])
            trend._last = Level(*saved["last"]) if saved["last"] is not None else None
            trend._finding = Finding(*saved["finding"]) if saved["finding"] is not None else None
            trend._found_at = float(saved["found_at"])
            trend._confirmed_at = float(saved["confirmed_at"])
            trend._confirmed_level = float(saved["confirmed_level"])
            trend._objection = str(saved["objection"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"memory trend: saved history is damaged ({error!r}); it starts anew") from error
        return trend

    def _judge(self, level: Level) -> None:
        self._last = level
        closed = self._history.add(level)
        best: Finding | None = None
        bounds = Bounds(
            self._levels.last_bytes or 0.0, self._limit_bytes, self._budget_bytes, self._levels.early_floor_bytes
        )
        self._objection = self._objection if self._levels.levels_in_life > 1 else ""
        for index in closed:
            scale = self._history.scales[index]
            if scale.at(LIFE, -1) != level.life or not worth_judging(scale, bounds, self.settings):
                continue  # a window that ends in a former life says nothing of this one
            finding = judge(self._history, index, bounds, self.settings)
            if finding.certainty is None:
                self._objection = finding.objection
            elif best is None or (finding.certainty == "leaking" and best.certainty == "growing"):
                best = finding
        if best is None or best.certainty == "growing":
            best = straight_climb(self._history, bounds, self.settings) or best
        if best is not None:
            self._confirm(best, level)
        elif self._finding is not None and self._has_ended(self._finding, level):
            self._objection = "growth stopped"
            self._forget_finding()

    def _confirm(self, finding: Finding, level: Level) -> None:
        known = self._finding
        if known is None or known.certainty != finding.certainty:
            if known is not None and known.certainty == "leaking":
                return  # growth goes on, but weaker evidence does not replace the certain verdict
            self._found_at = self._levels.clock_seconds
        self._finding = finding
        self._confirmed_at = level.time
        self._confirmed_level = level.level

    def _has_ended(self, finding: Finding, level: Level) -> bool:
        grown = level.level - self._confirmed_level
        if grown < -GIVEN_BACK_SHARE * finding.growth_bytes:
            return True
        passed = level.time - self._confirmed_at
        hour = self.settings.hour_seconds
        hold = min(max(finding.window_seconds, hour), LONGEST_HOLD_HOURS * hour)
        return passed >= hold and grown < STOPPED_SHARE * finding.slope * passed

    def _forget_finding(self) -> None:
        self._finding = None

    def _slope_estimate(self) -> Interval | None:
        """Slope over the longest window of the current life within the page's patience; None when there is none."""
        assert self._last is not None
        if self._estimate_at == self._last.time:
            return self._estimate
        self._estimate_at = self._last.time
        self._estimate = None
        longest = max(grade.patience_hours for grade in self.settings.leaking) * self.settings.hour_seconds
        for scale in reversed(self._history.scales):
            if len(scale) <= INCREMENTS or scale.at(LIFE, -INCREMENTS - 1) != self._last.life:
                continue
            times = scale.last(TIME, INCREMENTS + 1)
            if times[-1] - times[0] > 1.5 * longest:
                continue
            levels = scale.last(LEVEL, INCREMENTS + 1)
            window = times[-1] - times[0]
            deviation = (
                scatter(differences(levels), differences(times), (levels[-1] - levels[0]) / window)
                + self.settings.noise_floor_bytes
            )
            half_width = self.settings.interval_factor * deviation * INCREMENTS**0.5 / window
            self._estimate = per_hour(least_squares_slope(times, levels), half_width)
            break
        return self._estimate
