"""Differences: one target's readings come in, the interval between each two goes out.

Every series is differenced on its own before anything is added. What is decided here, and nowhere else:

- the first sample of a series gives no increase; a series that appears later on an engine already seen began at 0;
- a restart is counts going down, never a sum going down (failed requests push sums backwards); an engine that
  restarted gained what its counts say now;
- counts that go down while most others of the engine go on are contradictory: no increase is made of them;
- two processes answering in turn behind one address are told by counts that continue an *older* page, or by a start
  time that goes back: such a target gives no numbers until it has been consistent for `SETTLE_PAGES` pages;
- the zeros that a request with one token records as its TPOT are taken out by the count of such requests; as a page
  is not atomic, the two may stand on neighbouring pages, so one interval may hold a negative count;
- sums of queue, prefill and inference time are not used while requests fail: a failed request leaves the host's
  uptime in them (positive or negative).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

from agent.model import TARGET_WIDE, HistogramKey, HistogramValue, Layout, PageProblem, Reading, SeriesKey
from agent.windows.interval import Interval

SETTLE_PAGES = 6
REMEMBERED_PAGES = 4
FLIP_BACK_LEAST = 100.0
"""A restarted process may pass its former counts within one interval only while those are below this."""
POISONED_METRICS = frozenset({"queue", "prefill", "inference"})
POISONING_REASONS = frozenset({"error", "abort"})
POISONED_INTERVALS = 2
"""The failing interval and the next: the reason and the sum may stand on two pages, as a page is not atomic."""


@dataclass(slots=True)
class Difference:
    """What a new page added: an interval (None: nothing to difference yet), and what was noticed."""

    interval: Interval | None = None
    restarted: tuple[str, ...] = ()
    inconsistent: str = ""
    retract_previous: bool = False
    problems: tuple[PageProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class RememberedPage:
    """A page's values by series, as they outlive pdwatch itself."""

    t: float
    started_seconds: float | None
    engines: tuple[str, ...]
    counters: dict[SeriesKey, float]
    histograms: dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue]


@dataclass(slots=True)
class _Page:
    """All values of one page: by position of its layout; None where the page gave nothing usable."""

    t: float
    layout: Layout
    counters: list[float | None]
    histograms: list[HistogramValue | None]
    started_seconds: float | None
    troubled: frozenset[str]


class Differencer:
    """Holds the last pages of one target."""

    def __init__(self) -> None:
        self._pages: deque[_Page] = deque(maxlen=REMEMBERED_PAGES)
        self._start_seconds: float | None = None
        self._settle = 0
        self._just_restarted: frozenset[str] = frozenset()
        self._poisoned: dict[str, int] = {}

    def remembered(self, back: int = 0) -> RememberedPage | None:
        """The last page taken (or the one `back` pages before) in a form that can be written down; None without one."""
        if len(self._pages) <= back:
            return None
        page = self._pages[-1 - back]
        counters = zip(page.layout.counters, page.counters, strict=True)
        histograms = zip(page.layout.histograms, page.histograms, strict=True)
        return RememberedPage(
            t=page.t,
            started_seconds=page.started_seconds,
            engines=page.layout.engines,
            counters={series: value for series, value in counters if value is not None},
            histograms={(key.series, key.edges): value for key, value in histograms if value is not None},
        )

    def remember(self, page: RememberedPage) -> None:
        """Makes a page that was written down the one that the next is differenced with."""
        layout = Layout(
            engines=page.engines,
            counters=tuple(page.counters),
            gauges=(),
            histograms=tuple(HistogramKey(series, edges) for series, edges in page.histograms),
            names={},
            info={},
        )
        self._pages.clear()
        self._pages.append(
            _Page(
                page.t,
                layout,
                list(page.counters.values()),
                list(page.histograms.values()),
                page.started_seconds,
                frozenset(),
            )
        )
        self._start_seconds = page.started_seconds

    def shift(self, seconds: float) -> None:
        """Moves what is remembered in time, after the clock was set."""
        for page in self._pages:
            page.t += seconds

    def take(self, reading: Reading) -> Difference:
        """The interval from the page before to this one."""
        before = self._pages[-1] if self._pages else None
        page = self._page(reading, before)
        if before is not None and page.t <= before.t:
            # its counts are in the next page as well, so nothing is lost by leaving it out
            text = "a page is not newer than the one before it"
            return Difference(problems=(PageProblem("clock_jump", text),))
        self._pages.append(page)
        if before is None:
            self._start_seconds = page.started_seconds
            return Difference()
        steps = _Steps(before, page, reading)
        flipped = self._flipped(page, steps)
        self._start_seconds = page.started_seconds
        if flipped:
            self._settle = SETTLE_PAGES
            self._just_restarted = frozenset()
            return Difference(inconsistent=flipped, retract_previous=True)
        if self._settle:
            self._settle -= 1
            if self._settle or steps.fallen:
                self._settle = SETTLE_PAGES if steps.fallen else self._settle
                return Difference(inconsistent="answers of more than one process came from this address")
        restarted, contradictory = steps.verdicts()
        self._just_restarted = frozenset(restarted)
        interval = Interval(before.t, page.t, page.layout, restarted=tuple(sorted(restarted)))
        self._fill(interval, steps, restarted, contradictory)
        for gauge in reading.gauges:
            interval.gauges.append(float("nan") if gauge is None else gauge)
        return Difference(interval, interval.restarted, problems=_contradiction_problems(contradictory))

    def _page(self, reading: Reading, before: _Page | None) -> _Page:
        layout = reading.layout
        if before is not None and before.layout is layout and not reading.fresh:
            counters, histograms = before.counters.copy(), before.histograms.copy()
        else:
            counters, histograms = [None] * len(layout.counters), [None] * len(layout.histograms)
        for position, value in reading.counters.items():
            counters[position] = value
        for position, histogram in reading.histograms.items():
            histograms[position] = histogram
        started = None
        for series, gauge in zip(layout.gauges, reading.gauges, strict=True):
            if series.metric == "process_start_time_seconds":
                started = gauge
        troubled = frozenset(problem.engine for problem in reading.problems)
        return _Page(reading.t, layout, counters, histograms, started, troubled)

    def _flipped(self, page: _Page, steps: _Steps) -> str:
        """Why this page is another process's than the last, or "" when nothing says so."""
        started, started_before = page.started_seconds, self._start_seconds
        if started is not None and started_before is not None:
            if started < started_before - 1.0:
                return "the process start time went back: several processes answer behind this address"
            if started > started_before + 1.0:
                return ""  # a true restart says so itself
        older = list(self._pages)[:-2]
        for engine in steps.fallen:
            if any(_continues(candidate, page, engine, least=1.0) for candidate in older):
                return "counts continue an older page: several processes answer behind this address in turn"
        for engine in self._just_restarted if older else ():
            if engine not in steps.fallen and _continues(older[-1], page, engine, least=FLIP_BACK_LEAST):
                return "counts fell and came back: several processes answer behind this address in turn"
        return ""

    def _fill(
        self, interval: Interval, steps: _Steps, restarted: set[str], contradictory: set[SeriesKey]
    ) -> None:
        layout = interval.layout
        for engine in [engine for engine, left in self._poisoned.items() if left <= 0]:
            del self._poisoned[engine]
        for position, step in steps.counters(restarted):
            series = layout.counters[position]
            if series in contradictory or not step > 0:
                continue
            interval.put_counter(position, step)
            if series.metric == "requests_finished" and series.label in POISONING_REASONS:
                self._poisoned[series.engine] = POISONED_INTERVALS
        zeros: dict[str, float] = {}
        gathered: list[tuple[int, dict[int, float], float | None]] = []
        for position, buckets, total in steps.histograms(restarted):
            key = layout.histograms[position]
            if key.series in contradictory:
                continue
            if key.series.metric in POISONED_METRICS and self._poisoned.get(key.series.engine):
                total = None
            if key.series.metric == "generation_tokens":
                zeros[key.series.engine] = sum(
                    n for bucket, n in buckets.items() if bucket < len(key.edges) and key.edges[bucket] <= 1.0
                )
            gathered.append((position, buckets, total))
        for position, buckets, total in gathered:
            series = layout.histograms[position].series
            forced = zeros.pop(series.engine, 0.0) if series.metric == "tpot" else 0.0
            if forced:
                buckets = _without_zeros(buckets, forced)
            if buckets or total:
                interval.put_histogram(position, buckets, total)
        for position, key in enumerate(layout.histograms):
            if key.series.metric == "tpot" and zeros.get(key.series.engine):
                # their TPOT stood on the page before, or comes with the next: the sum over both is right
                interval.put_histogram(position, {0: -zeros[key.series.engine]}, 0.0)
        for engine in self._poisoned:
            self._poisoned[engine] -= 1


class _Steps:
    """Differences between two pages of one target, series by series."""

    def __init__(self, before: _Page, page: _Page, reading: Reading) -> None:
        self._before, self._page = before, page
        self._same = before.layout is page.layout
        self._changed_counters = list(reading.counters)
        self._changed_histograms = list(reading.histograms)
        self._old_counters: dict[SeriesKey, float | None] = {}
        self._old_histograms: dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue | None] = {}
        self._known_engines = {TARGET_WIDE, *before.layout.engines} - before.troubled
        if not self._same:
            self._old_counters = dict(zip(before.layout.counters, before.counters, strict=True))
            self._old_histograms = {
                (key.series, key.edges): value
                for key, value in zip(before.layout.histograms, before.histograms, strict=True)
            }
        self._bucket_steps: dict[int, list[float]] = {}
        self.fallen, self._risen, self._fallen_series = self._directions()

    def _counter_pair(self, position: int) -> tuple[float | None, float | None]:
        """(value before, value now); a series new on an engine already known began at 0."""
        now = self._page.counters[position]
        if self._same:
            return self._before.counters[position], now
        series = self._page.layout.counters[position]
        if series in self._old_counters:
            return self._old_counters[series], now
        return (0.0 if series.engine in self._known_engines else None), now

    def _histogram_pair(self, position: int) -> tuple[HistogramValue | None, HistogramValue | None]:
        now = self._page.histograms[position]
        if self._same:
            return self._before.histograms[position], now
        key = self._page.layout.histograms[position]
        known = (key.series, key.edges)
        if known in self._old_histograms:
            return self._old_histograms[known], now
        if any(series == key.series for series, _ in self._old_histograms):
            return None, now  # its edges changed: a first sample
        fresh = HistogramValue((0.0,) * (len(key.edges) + 1), 0.0)
        return (fresh if key.series.engine in self._known_engines else None), now

    def _directions(self) -> tuple[set[str], dict[str, int], dict[str, set[SeriesKey]]]:
        """Engines with a count that fell; how many counts did not fall (per engine); the series that fell."""
        kept: dict[str, int] = {}
        fallen: dict[str, set[SeriesKey]] = {}
        for position in self._changed_counters:
            before, now = self._counter_pair(position)
            if before is not None and now is not None and now < before:
                series = self._page.layout.counters[position]
                fallen.setdefault(series.engine, set()).add(series)
        for position in self._changed_histograms:
            old, new = self._histogram_pair(position)
            if old is not None and new is not None:
                steps = self._bucket_steps[position] = list(map(sub, new.counts, old.counts))
                if min(steps) < 0:
                    series = self._page.layout.histograms[position].series
                    fallen.setdefault(series.engine, set()).add(series)
        if fallen:
            for position, series in enumerate(self._page.layout.counters):
                before, now = self._counter_pair(position)
                if series.engine in fallen and before and now is not None and now >= before:
                    kept[series.engine] = kept.get(series.engine, 0) + 1
            for position, key in enumerate(self._page.layout.histograms):
                old, new = self._histogram_pair(position)
                engine = key.series.engine
                if engine in fallen and old is not None and new is not None and any(old.counts):
                    if all(b >= a for a, b in zip(old.counts, new.counts, strict=True)):
                        kept[engine] = kept.get(engine, 0) + 1
        return set(fallen), kept, fallen

    def verdicts(self) -> tuple[set[str], set[SeriesKey]]:
        """(engines that restarted, series whose fall contradicts the rest of their engine)."""
        restarted: set[str] = set()
        contradictory: set[SeriesKey] = set()
        for engine in self.fallen:
            if len(self._fallen_series[engine]) >= self._risen.get(engine, 0):
                restarted.add(engine)
            else:
                contradictory |= self._fallen_series[engine]
        return restarted, contradictory

    def counters(self, restarted: set[str]) -> list[tuple[int, float]]:
        """(position, increase) of each counter that has one; of a restarted engine all that is not 0 now."""
        steps = []
        for position in self._positions(self._page.layout.counters, self._changed_counters, restarted):
            before, now = self._counter_pair(position)
            if before is None or now is None:
                continue
            series = self._page.layout.counters[position]
            steps.append((position, now if series.engine in restarted else now - before))
        return steps

    def histograms(self, restarted: set[str]) -> list[tuple[int, dict[int, float], float | None]]:
        """(position, {bucket: increase}, increase of the sum or None) of each histogram that moved."""
        steps = []
        series_of = [key.series for key in self._page.layout.histograms]
        for position in self._positions(series_of, self._changed_histograms, restarted):
            old, new = self._histogram_pair(position)
            if old is None or new is None:
                continue
            if restarted and series_of[position].engine in restarted:
                gained: Sequence[float] = new.counts
                old = HistogramValue((), 0.0)
            else:
                gained = self._bucket_steps[position]
            buckets = {bucket: count for bucket, count in enumerate(gained) if count}
            total = None if old.total is None or new.total is None else new.total - old.total
            if total is not None and total < 0:
                total = None  # all these histograms are of non-negative quantities: an artefact came through
            steps.append((position, buckets, total))
        return steps

    @staticmethod
    def _positions(series: Sequence[SeriesKey], changed: list[int], restarted: set[str]) -> list[int]:
        """The series to difference: those that changed, and all of an engine that restarted."""
        if not restarted:
            return changed
        return sorted({*changed, *(i for i, key in enumerate(series) if key.engine in restarted)})


def _without_zeros(buckets: dict[int, float], forced: float) -> dict[int, float]:
    """TPOT steps without the zeros of one-token requests, which all lie in the first bucket."""
    left = buckets.get(0, 0.0) - forced
    others = {bucket: count for bucket, count in buckets.items() if bucket}
    return {0: left, **others} if left else others


def _continues(older: _Page, page: _Page, engine: str, least: float) -> bool:
    """True when every count of the engine is at or above an older page's, whose counts add up to at least `least`."""
    if older.layout is not page.layout:
        return False
    seen = 0.0
    for series, before, now in zip(page.layout.counters, older.counters, page.counters, strict=True):
        if series.engine == engine and before:
            if now is None or now < before:
                return False
            seen += before
    for key, past, present in zip(page.layout.histograms, older.histograms, page.histograms, strict=True):
        if key.series.engine == engine and past is not None and any(past.counts):
            if present is None or any(b < a for a, b in zip(past.counts, present.counts, strict=True)):
                return False
            seen += math.fsum(past.counts)
    return seen >= least


def _contradiction_problems(series: set[SeriesKey]) -> tuple[PageProblem, ...]:
    return tuple(
        PageProblem(
            "inconsistent_source", f"{key.metric} {key.label} fell while its engine went on", key.engine
        )
        for key in sorted(series)
    )
