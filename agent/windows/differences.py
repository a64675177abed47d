"""Differences: one target's readings come in, the interval between each two goes out.

Every series is differenced on its own before anything is added. What is decided here, and nowhere else:

- the first sample of a series gives no increase; a series that appears later on an engine already seen began at 0;
- a restart is counts going down, never a sum going down (failed requests push sums backwards), or a process that
  started after the page before, whatever its counts have grown to since; an engine that restarted gained what its
  counts say now;
- a histogram whose bucket edges changed is a first sample: what lies between is not known, and said to be so;
- counts that go down while most others of the engine go on are contradictory: no increase is made of them;
- two processes answering in turn behind one address are told by counts that continue an *older* page, or by a start
  time that goes back: such a target gives no numbers until it has been consistent for `SETTLE_PAGES` pages;
- the zeros that a request with one token records as its TPOT are taken out by the count of such requests; as a page
  is not atomic, the two may stand on neighbouring pages, so one interval may hold a negative count;
- sums of queue, prefill and inference time are not used while requests fail: a failed request leaves the host's
  uptime in them (positive or negative).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agent.model import HistogramKey, Layout, PageProblem, Reading, SeriesKey
from agent.windows.interval import Interval
from agent.windows.pages import Gone, Page, RememberedPage, continues, process_of
from agent.windows.steps import Steps

SETTLE_PAGES = 6
REMEMBERED_PAGES = 4
FLIP_BACK_LEAST = 100.0
"""A restarted process may pass its former counts within one interval only while those are below this."""
CLOCK_SKEW_SECONDS = 60.0
"""How far the clock that a process takes its start time from may be behind pdwatch's own."""
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


class Differencer:
    """Holds the last pages of one target."""

    def __init__(self) -> None:
        self._pages: deque[Page] = deque(maxlen=REMEMBERED_PAGES)
        self._start_seconds: float | None = None
        self._gone, self._gone_before = Gone(), Gone()
        self._settle = 0
        self._just_restarted: frozenset[str] = frozenset()
        self._poisoned: dict[str, int] = {}

    def remembered(self, back: int = 0) -> RememberedPage | None:
        """The last page taken (or the one `back` pages before) in a form that can be written down; None without one."""
        if len(self._pages) <= back:
            return None
        page, gone = self._pages[-1 - back], self._gone_before if back else self._gone
        counters = zip(page.layout.counters, page.counters, strict=True)
        histograms = zip(page.layout.histograms, page.histograms, strict=True)
        return RememberedPage(
            t=page.t,
            started_seconds=page.started_seconds,
            engines=page.layout.engines,
            counters={series: value for series, value in counters if value is not None},
            histograms={(key.series, key.edges): value for key, value in histograms if value is not None},
            gone=gone.copy(),
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
            Page(
                page.t,
                layout,
                list(page.counters.values()),
                list(page.histograms.values()),
                page.started_seconds,
                frozenset(),
            )
        )
        self._start_seconds = page.started_seconds
        self._gone = page.gone.copy()

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
        self._gone_before = self._gone.copy()
        steps = Steps(before, page, reading, self._gone_before)
        if before.layout is not page.layout:
            self._gone.note(before, page)
        flipped = self._flipped(page, steps)
        started_anew = self._started_anew(before, page)
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
        if started_anew:
            restarted, contradictory = set(page.processes), set()  # all that it shows came after the page before
            self._gone.clear()
        self._gone.forget(restarted, page.layout)
        # A restart that the start time tells of is none that has to be doubted when the counts are back soon.
        self._just_restarted = frozenset() if started_anew else frozenset(restarted)
        engines = {engine for process, engine in page.processes.items() if process in restarted} if restarted else ()
        interval = Interval(before.t, page.t, page.layout, restarted=tuple(sorted(engines)))
        interval.unknown = steps.unknown(restarted)
        self._fill(interval, steps, restarted, contradictory)
        for gauge in reading.gauges:
            interval.gauges.append(float("nan") if gauge is None else gauge)
        problems = (*_contradiction_problems(contradictory), *_edge_problems(page, steps, restarted))
        return Difference(interval, interval.restarted, problems=problems)

    def _page(self, reading: Reading, before: Page | None) -> Page:
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
        troubled = frozenset(problem.engine for problem in reading.problems if not problem.harmless)
        return Page(reading.t, layout, counters, histograms, started, troubled)

    def _started_anew(self, before: Page, page: Page) -> bool:
        """The process started after the page before. One that started earlier was there already, somewhere else."""
        started, started_before = page.started_seconds, self._start_seconds
        if started is None or started_before is None or started <= started_before + 1.0:
            return False
        return started >= before.t - CLOCK_SKEW_SECONDS

    def _flipped(self, page: Page, steps: Steps) -> str:
        """Why this page is another process's than the last, or "" when nothing says so."""
        started, started_before = page.started_seconds, self._start_seconds
        if started is not None and started_before is not None:
            if started < started_before - 1.0:
                return "the process start time went back: several processes answer behind this address"
            if started > started_before + 1.0:
                return ""  # a true restart says so itself
        older = list(self._pages)[:-2]
        for engine in steps.fallen:
            if any(continues(candidate, page, engine, least=1.0) for candidate in older):
                return "counts continue an older page: several processes answer behind this address in turn"
        for engine in self._just_restarted if older else ():
            if engine not in steps.fallen and continues(older[-1], page, engine, least=FLIP_BACK_LEAST):
                return "counts fell and came back: several processes answer behind this address in turn"
        return ""

    def _fill(self, interval: Interval, steps: Steps, restarted: set[str], contradictory: set[SeriesKey]) -> None:
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
                zeros[key.series.engine] = zeros.get(key.series.engine, 0.0) + sum(
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
        for position, key in enumerate(layout.histograms if any(zeros.values()) else ()):
            if (
                key.series.metric == "tpot"
                and zeros.get(key.series.engine)
                and position not in interval.unknown.histograms
            ):
                # their TPOT stood on the page before, or comes with the next: the sum over both is right
                interval.put_histogram(position, {0: -zeros[key.series.engine]}, 0.0)
        for engine in self._poisoned:
            self._poisoned[engine] -= 1


def _without_zeros(buckets: dict[int, float], forced: float) -> dict[int, float]:
    """TPOT steps without the zeros of one-token requests, which all lie in the first bucket."""
    left = buckets.get(0, 0.0) - forced
    others = {bucket: count for bucket, count in buckets.items() if bucket}
    return {0: left, **others} if left else others


def _edge_problems(page: Page, steps: Steps, restarted: set[str]) -> tuple[PageProblem, ...]:
    """One sentence about all histograms whose edges changed without a restart of their engine."""
    changed = [page.layout.histograms[position].series for position in steps.new_edges]
    changed = [series for series in changed if process_of(page.layout, series) not in restarted]
    if not changed:
        return ()
    what = f"{changed[0].metric} of engine {changed[0].engine}" if changed[0].engine else changed[0].metric
    more = f" and {len(changed) - 1} more histograms" if len(changed) > 1 else ""
    text = f"bucket edges of {what}{more} are not those of the page before: what was observed in between is not known"
    return (PageProblem("mixed_buckets", text),)


def _contradiction_problems(series: set[SeriesKey]) -> tuple[PageProblem, ...]:
    return tuple(
        PageProblem("inconsistent_source", f"{key.metric} {key.label} fell while its engine went on", key.engine)
        for key in sorted(series)
    )
