"""One target's recent past: its pages come in, its intervals, latest gauges and what is wrong with it stay.

Kept scrape by scrape for `retain_seconds` (fine enough for percentiles out of sums), then dropped: the pool's
history has taken it over by then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agent.model import TARGET_WIDE, Layout, PageProblem, Reading
from agent.windows.differences import Differencer
from agent.windows.increase import Increase
from agent.windows.interval import Gathering, Interval, Unknown
from agent.windows.pages import RememberedPage
from agent.windows.work import WorkDone

MISSING_ENGINE_REMEMBERED_SECONDS = 6 * 3600.0
RUNNING_WINDOWS = 4
REBUILD_AFTER = 500
"""Intervals taken out of a running sum before it is added up anew, which bounds what floats have lost."""
SPARE_LAYOUTS = 8
"""Layouts that have left the window, kept in a running sum before it is added up anew, which bounds its memory."""
MOST_DIFFERENCE_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class TargetIncreases:
    """What one target gained in a window, per engine, and between which pages."""

    start: float | None
    end: float | None
    engines: dict[str, Increase]
    intervals: tuple[Interval, ...]
    restarts: int

    @property
    def covered_seconds(self) -> float:
        return self.end - self.start if self.start is not None and self.end is not None else 0.0


@dataclass(slots=True)
class TargetHealth:
    """What is known of the target besides numbers; times are unix seconds."""

    attempted: float | None = None
    failed_since: float | None = None
    error: str = ""
    error_text: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    scrapes: int = 0
    inconsistent_since: float | None = None
    inconsistent_text: str = ""
    clock_jumped: float | None = None
    missing_engines: dict[str, float] = field(default_factory=dict)
    restarts: int = 0
    restarted: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=64))
    page_problems: tuple[PageProblem, ...] = ()
    page_problems_since: float | None = None

    def shift(self, seconds: float) -> None:
        """Moves every moment in time, after the clock was set by `seconds`."""
        self.attempted = _moved(self.attempted, seconds)
        self.failed_since = _moved(self.failed_since, seconds)
        self.inconsistent_since = _moved(self.inconsistent_since, seconds)
        self.page_problems_since = _moved(self.page_problems_since, seconds)
        self.missing_engines = {engine: t + seconds for engine, t in self.missing_engines.items()}
        self.restarted = deque(((t + seconds, engine) for t, engine in self.restarted), maxlen=self.restarted.maxlen)


class TargetWindow:
    """Fed with readings and failures of one target, in time order."""

    def __init__(self, retain_seconds: float) -> None:
        self.retain_seconds = retain_seconds
        self._differencer = Differencer()
        self._intervals: deque[Interval] = deque()
        self._latest: Reading | None = None
        self._engines_seen: dict[str, None] = {}
        self._running: dict[float, RunningWindow] = {}
        self.work = WorkDone()
        self.health = TargetHealth()

    @property
    def latest(self) -> Reading | None:
        """The last page that could be read."""
        return self._latest

    @property
    def layout(self) -> Layout | None:
        return self._latest.layout if self._latest else None

    def age_seconds(self, now: float) -> float | None:
        return now - self._latest.t if self._latest else None

    def failed(self, t: float, error: str, text: str = "") -> None:
        """A page that did not come, or that could not be used. Nothing known is lost by it."""
        health = self.health
        health.attempted = t
        health.failures[error] = health.failures.get(error, 0) + 1
        if health.failed_since is None:
            health.failed_since = t
        health.error, health.error_text = error, text

    def take(self, reading: Reading) -> Interval | None:
        """Adds a page; returns the interval before it that is now certain (one page late), for the pool's history.

        One page late, because only the next page shows that an interval lay between two different processes.
        """
        health = self.health
        health.attempted, health.failed_since, health.error, health.error_text = reading.t, None, "", ""
        health.scrapes += 1
        self._note_engines(reading)
        self._latest = reading
        difference = self._differencer.take(reading)
        self._note_problems(reading, difference.problems)
        if difference.inconsistent:
            if health.inconsistent_since is None:
                health.inconsistent_since = reading.t
            health.inconsistent_text = difference.inconsistent
            if difference.retract_previous and self._intervals:
                self._intervals.pop()
            return None
        if difference.problems and difference.problems[0].code == "clock_jump":
            health.clock_jumped = reading.t
        health.inconsistent_since = None
        if difference.interval is None:
            return None
        certain = self._intervals[-1] if self._intervals else None
        health.restarts += bool(difference.restarted)
        for engine in difference.restarted:
            health.restarted.append((reading.t, engine))
        self._intervals.append(difference.interval)
        self.work.add(difference.interval)
        while self._intervals and self._intervals[0].end <= reading.t - self.retain_seconds:
            self._intervals.popleft()
        return certain

    def remembered(self) -> RememberedPage | None:
        """The values of the last page whose intervals are all in the pool's history; None before the first page.

        The newest interval is not certain yet: written down is the page that it began with, so that the first page
        after a restart brings its increase again.
        """
        uncertain = bool(self._intervals) and self._latest is not None and self._intervals[-1].end == self._latest.t
        return self._differencer.remembered(back=1 if uncertain else 0)

    def remember(self, page: RememberedPage) -> None:
        """Takes up a page that was written down: the next page is differenced with it."""
        self._differencer.remember(page)

    def increases(self, since: float, until: float) -> TargetIncreases:
        """What happened from the last page at or before `since` to the last at or before `until`, per engine.

        The increases are those of a running window and change with the next call: do not keep them.
        """
        chosen = tuple(i for i in self._intervals if since < i.end <= until)
        return TargetIncreases(
            start=chosen[0].start if chosen else None,
            end=chosen[-1].end if chosen else None,
            engines=self._running_window(until - since).moved_to(chosen),
            intervals=chosen,
            restarts=sum(bool(interval.restarted) for interval in chosen),
        )

    def _running_window(self, length_seconds: float) -> RunningWindow:
        """One running sum for each length that is asked for again and again; a few at most."""
        key = round(length_seconds, 3)  # what floats make of now - 300 is one length
        if key not in self._running and len(self._running) >= RUNNING_WINDOWS:
            del self._running[next(iter(self._running))]
        return self._running.setdefault(key, RunningWindow())

    def gauge(self, metric: str, label: str = "") -> dict[str, float]:
        """Engine -> value on the latest page; engines without a value are left out."""
        values: dict[str, float] = {}
        if self._latest is not None:
            for series, value in zip(self._latest.layout.gauges, self._latest.gauges, strict=True):
                if series.metric == metric and series.label == label and value is not None:
                    values[series.engine] = values.get(series.engine, 0.0) + value
        return values

    def shift(self, seconds: float) -> None:
        """Moves the history in time by `seconds`, after the clock was set by as much."""
        for interval in self._intervals:
            interval.start += seconds
            interval.end += seconds
        self._differencer.shift(seconds)
        self.health.shift(seconds)
        if self._latest is not None:
            self._latest.t += seconds

    def _note_problems(self, reading: Reading, between: tuple[PageProblem, ...]) -> None:
        """`between`: problems of this page beside the last one."""
        shown = [problem for problem in between if problem.code != "clock_jump"][:MOST_DIFFERENCE_PROBLEMS]
        problems = (*reading.problems, *shown)
        if not problems:
            self.health.page_problems_since = None
        elif self.health.page_problems_since is None:
            self.health.page_problems_since = reading.t
        self.health.page_problems = problems

    def _note_engines(self, reading: Reading) -> None:
        missing, now = self.health.missing_engines, reading.t
        present = set(reading.layout.engines)
        for engine in self._engines_seen:
            if engine not in present and engine != TARGET_WIDE:
                missing.setdefault(engine, now)
        for engine in [e for e, since in missing.items() if e in present or _long_ago(since, now)]:
            del missing[engine]
            if engine not in present:
                self._engines_seen.pop(engine, None)
        for engine in present:
            self._engines_seen.setdefault(engine)


def _long_ago(since: float, now: float) -> bool:
    return now - since > MISSING_ENGINE_REMEMBERED_SECONDS


class RunningWindow:
    """The sum over a window that moves: what left is taken out, what came is added, instead of adding up all of it."""

    def __init__(self) -> None:
        self._holds: tuple[Interval, ...] = ()
        self._gathering = Gathering()
        self._taken_out = 0
        self._known: set[Unknown] = set()

    def moved_to(self, intervals: tuple[Interval, ...]) -> dict[str, Increase]:
        """Engine -> increase over exactly these intervals, which follow one another in time."""
        kept = set(map(id, intervals)) & set(map(id, self._holds))
        leaving = len(self._holds) - len(kept)
        kinds = {(id(interval.layout), interval.unknown) for interval in intervals}
        if (
            2 * len(kept) < len(self._holds)
            or self._taken_out + leaving > REBUILD_AFTER
            or self._gathering.layouts > len(kinds) + SPARE_LAYOUTS
            or self._known != {unknown for _, unknown in kinds}
        ):
            self._known = {unknown for _, unknown in kinds}
            self._gathering, self._taken_out = Gathering(), 0
            for interval in intervals:
                self._gathering.add(interval)
        else:
            for interval in self._holds:
                if id(interval) not in kept:
                    self._gathering.take_out(interval)
            for interval in intervals:
                if id(interval) not in kept:
                    self._gathering.add(interval)
            self._taken_out += leaving
        self._holds = intervals
        return self._gathering.result()


def _moved(t: float | None, seconds: float) -> float | None:
    return None if t is None else t + seconds
