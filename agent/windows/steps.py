"""Steps: two pages of one target come in, the difference of each series goes out, and which counts fell.

Only series that the newer page lists as changed are looked at, unless something fell: then whole engines are.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from agent.model import TARGET_WIDE, HistogramValue, Reading, SeriesKey
from agent.windows.interval import NOTHING_UNKNOWN, Unknown
from agent.windows.pages import Gone, Page, process_of


class Steps:
    """Differences between two pages of one target, series by series."""

    def __init__(self, before: Page, page: Page, reading: Reading, gone: Gone) -> None:
        self._gone = gone
        self._before, self._page = before, page
        self._same = before.layout is page.layout
        self._changed_counters = list(reading.counters)
        self._changed_histograms = list(reading.histograms)
        self._old_counters: dict[SeriesKey, float | None] = {}
        self._old_histograms: dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue | None] = {}
        self._known = frozenset() if self._same else _known_processes(before, page)
        self._old_series: set[SeriesKey] = set()
        if not self._same:
            self._old_series = {key.series for key in before.layout.histograms}
            self._old_counters = dict(zip(before.layout.counters, before.counters, strict=True))
            self._old_histograms = {
                (key.series, key.edges): value
                for key, value in zip(before.layout.histograms, before.histograms, strict=True)
            }
        self._bucket_steps: dict[int, list[float]] = {}
        self.new_edges = self._with_new_edges()
        self.fallen, self._risen, self._fallen_series = self._directions()

    def _counter_pair(self, position: int) -> tuple[float | None, float | None]:
        """(value before, value now); a series new on an engine already known began at 0."""
        now = self._page.counters[position]
        if self._same:
            return self._before.counters[position], now
        series = self._page.layout.counters[position]
        if series in self._old_counters:
            return self._old_counters[series], now
        if series in self._gone.counters:
            return self._gone.counters[series], now
        return (0.0 if process_of(self._page.layout, series) in self._known else None), now

    def _histogram_pair(self, position: int) -> tuple[HistogramValue | None, HistogramValue | None]:
        now = self._page.histograms[position]
        if self._same:
            return self._before.histograms[position], now
        key = self._page.layout.histograms[position]
        known = (key.series, key.edges)
        if known in self._old_histograms:
            return self._old_histograms[known], now
        if known in self._gone.histograms:
            return self._gone.histograms[known], now
        if key.series in self._old_series:
            return None, now  # its edges changed: a first sample
        fresh = HistogramValue((0.0,) * (len(key.edges) + 1), 0.0)
        return (fresh if process_of(self._page.layout, key.series) in self._known else None), now

    def _with_new_edges(self) -> list[int]:
        """Positions of histograms that the page before had with other bucket edges."""
        if self._same:
            return []
        known = self._old_histograms.keys() | self._gone.histograms.keys()
        return [
            position
            for position, key in enumerate(self._page.layout.histograms)
            if key.series in self._old_series and (key.series, key.edges) not in known
        ]

    def _directions(self) -> tuple[set[str], dict[str, int], dict[str, set[SeriesKey]]]:
        """Processes with a count that fell; how many counts did not fall (per process); the series that fell."""
        layout = self._page.layout
        kept: dict[str, int] = {}
        fallen: dict[str, set[SeriesKey]] = {}
        for position in self._changed_counters:
            before, now = self._counter_pair(position)
            if before is not None and now is not None and now < before:
                series = layout.counters[position]
                fallen.setdefault(process_of(layout, series), set()).add(series)
        for position in self._changed_histograms:
            old, new = self._histogram_pair(position)
            if old is not None and new is not None:
                steps = self._bucket_steps[position] = list(map(sub, new.counts, old.counts))
                if min(steps) < 0:
                    series = layout.histograms[position].series
                    fallen.setdefault(process_of(layout, series), set()).add(series)
        if fallen:
            for position, series in enumerate(layout.counters):
                before, now = self._counter_pair(position)
                process = process_of(layout, series)
                if process in fallen and before and now is not None and now >= before:
                    kept[process] = kept.get(process, 0) + 1
            for position, key in enumerate(layout.histograms):
                old, new = self._histogram_pair(position)
                process = process_of(layout, key.series)
                if process not in fallen or old is None or new is None or not any(old.counts):
                    continue
                if all(b >= a for a, b in zip(old.counts, new.counts, strict=True)):
                    kept[process] = kept.get(process, 0) + 1
        return set(fallen), kept, fallen

    def verdicts(self) -> tuple[set[str], set[SeriesKey]]:
        """(processes that restarted, series whose fall contradicts the rest of their process)."""
        restarted: set[str] = set()
        contradictory: set[SeriesKey] = set()
        for process in self.fallen:
            if len(self._fallen_series[process]) >= self._risen.get(process, 0):
                restarted.add(process)
            else:
                contradictory |= self._fallen_series[process]
        return restarted, contradictory

    def counters(self, restarted: set[str]) -> list[tuple[int, float]]:
        """(position, increase) of each counter that has one; of a restarted process all that is not 0 now."""
        steps = []
        layout = self._page.layout
        for position in self._positions(layout.counters, self._changed_counters, restarted):
            before, now = self._counter_pair(position)
            if now is None:
                continue
            if restarted and process_of(layout, layout.counters[position]) in restarted:
                steps.append((position, now))
            elif before is not None:
                steps.append((position, now - before))
        return steps

    def unknown(self, restarted: set[str]) -> Unknown:
        """Series of which the two pages do not tell what happened in between: no usable value, or other edges."""
        counters, histograms = self._page.counters, self._page.histograms
        if self._same and None not in counters and None not in histograms:
            return NOTHING_UNKNOWN
        other_edges = frozenset(self.new_edges) if self.new_edges else frozenset()
        return Unknown(
            frozenset(position for position, value in enumerate(counters) if value is None),
            frozenset(
                position
                for position, (key, value) in enumerate(zip(self._page.layout.histograms, histograms, strict=True))
                if value is None
                or (position in other_edges and process_of(self._page.layout, key.series) not in restarted)
            ),
        )

    def histograms(self, restarted: set[str]) -> list[tuple[int, dict[int, float], float | None]]:
        """(position, {bucket: increase}, increase of the sum or None) of each histogram that moved."""
        steps = []
        series_of = [key.series for key in self._page.layout.histograms]
        for position in self._positions(series_of, self._changed_histograms, restarted):
            old, new = self._histogram_pair(position)
            if new is None:
                continue
            if restarted and process_of(self._page.layout, series_of[position]) in restarted:
                gained: Sequence[float] = new.counts
                old = HistogramValue((), 0.0)
            elif old is None:
                continue
            else:
                gained = self._bucket_steps[position]
            buckets = {bucket: count for bucket, count in enumerate(gained) if count}
            total = None if old.total is None or new.total is None else new.total - old.total
            if total is not None and total < 0:
                total = None  # all these histograms are of non-negative quantities: an artefact came through
            steps.append((position, buckets, total))
        return steps

    def _positions(self, series: Sequence[SeriesKey], changed: list[int], restarted: set[str]) -> list[int]:
        """The series to difference: those that changed, and all of a process that restarted."""
        if not restarted:
            return changed
        layout = self._page.layout
        return sorted({*changed, *(i for i, key in enumerate(series) if process_of(layout, key) in restarted)})


def _known_processes(before: Page, page: Page) -> frozenset[str]:
    """Processes of which the page before showed something: a series of theirs that it lacked began at 0 after it.

    Where one server became several behind the page, or they became one, every process has another name now.
    """
    if before.layout.replicas != page.layout.replicas:
        return frozenset({TARGET_WIDE})
    known = {process for process, engine in before.processes.items() if engine not in before.troubled}
    if not before.layout.replicas:
        known |= {*before.layout.engines} - before.troubled
    return frozenset(known | ({TARGET_WIDE} - before.troubled))
