"""What a page holds. In: a scanned page. Out: its structure: the layout, the values, and the text in sections.

The structure is all that stays from page to page: as long as the next page has the same keys in the same order,
reading it needs only the sections that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from agent.model import HistogramKey, Layout, SeriesKey
from agent.reading import exposition
from agent.reading.choice import chosen, names_of
from agent.reading.histogram import HistogramPlace
from agent.reading.names import SampleName
from agent.reading.problems import Problems
from agent.reading.scan import EOF, Family, Line, Scan
from agent.reading.section import Section, SectionKind, sections
from agent.reading.series import by_child, engine_of, in_order, keys_of, shows_replicas

_TWICE = "given more than once, with different values"


@dataclass(slots=True)
class Structure:
    """One page.

    `values` are those of the counters, of the gauges (both in the layout's order) and of the histograms' lines.
    A histogram without a place, and a counter among the spoiled, is made unusable by the structure alone;
    `problems` says why, and holds all else that is wrong whatever the values are.
    """

    layout: Layout
    sections: list[Section]
    values: tuple[list[float], list[float], list[float]]
    places: list[HistogramPlace | None]
    spoiled_counters: set[int]
    problems: Problems
    samples: int


@dataclass(slots=True)
class _Parts:
    """The lines of one histogram; the first of lines that repeat each other stands for them."""

    buckets: dict[float, Line] = field(default_factory=dict)
    total: Line | None = None
    count: Line | None = None
    repeats: list[tuple[Line, Line]] = field(default_factory=list)


def structure_of(page: Scan, declarable: Mapping[str, SampleName]) -> Structure:
    """Work out the structure of a scanned page and read every value once.

    `declarable` is the table of family names: what the page declares without having a sample is named in the layout.
    """
    return _Builder(page).build(declarable)


class _Builder:
    """Fills the lists of a structure, family by family."""

    def __init__(self, page: Scan) -> None:
        self._page = page
        self._families = chosen(page)
        self._replicas = any(shows_replicas(family) for family in self._families)
        self._line_places = [(SectionKind.REST, -1, -1)] * len(page.lines)
        self._keys: tuple[list[SeriesKey], list[SeriesKey]] = ([], [])
        self._values: tuple[list[float], list[float], list[float]] = ([], [], [])
        self._spoiled: set[int] = set()
        self._histograms: list[HistogramKey] = []
        self._places: list[HistogramPlace | None] = []
        self._edges: dict[tuple[float, ...], tuple[float, ...]] = {}
        self._sum_first = False
        self._without_top: list[str] = []

    def build(self, declarable: Mapping[str, SampleName]) -> Structure:
        page = self._page
        engines: set[str] = set()
        info: dict[str, dict[str, str]] = {}
        for family in self._families:
            if family.name.per_engine:
                engines.update({engine_of(family, lines[0]) for lines in by_child(family)})
            if family.name.kind == "histogram":
                self._add_histograms(family)
            elif family.name.kind == "info":
                info.update((engine_of(family, line), dict(line.labels.given)) for line in family.lines)
            else:
                self._add_values(family, SectionKind.GAUGES if family.name.kind == "gauge" else SectionKind.COUNTERS)
        if self._without_top:
            more = f" and {len(self._without_top) - 1} more" if len(self._without_top) > 1 else ""
            page.problems.add_harmless(f"{self._without_top[0]}{more}: no +Inf bucket; _count stands for it")
        counters, gauges = self._keys
        layout = Layout(
            engines=in_order(engines),
            counters=tuple(counters),
            gauges=tuple(gauges),
            histograms=tuple(self._histograms),
            names=names_of(self._families, page, declarable),
            info=info,
            multiprocess=self._sum_first
            and EOF not in page.lines[-1:]
            and not any(family.startswith("process_") for family in page.types),
            replicas=self._replicas,
        )
        return Structure(
            layout,
            sections(page.lines, page.key_lengths, self._line_places),
            self._values,
            self._places,
            self._spoiled,
            page.problems,
            page.samples,
        )

    # -- lines and their values ---------------------------------------------------------------------------

    def _value(self, line: Line) -> float:
        return exposition.value(self._page.lines[line.number][line.key_length :])

    def _agree(self, line: Line, other: Line) -> bool:
        one, two = self._value(line), self._value(other)
        return one is two or one == two

    def _take(self, line: Line, kind: SectionKind, series: int) -> int:
        """Read a line's value; returns its position among the values of its kind."""
        values = self._values[kind]
        self._line_places[line.number] = (kind, series, len(values))
        values.append(self._value(line))
        return len(values) - 1

    def _fix(self, lines: Iterable[Line]) -> None:
        """A change in one of these lines makes the page be read anew."""
        for line in lines:
            self._line_places[line.number] = (SectionKind.REST, -1, -1)
            self._page.key_lengths[line.number] = 0

    # -- counters and gauges ------------------------------------------------------------------------------

    def _add_values(self, family: Family, kind: SectionKind) -> None:
        keys = self._keys[kind]
        children = by_child(family)
        for key, (line, *repeats) in zip(
            keys_of(family, [c[0] for c in children], self._replicas), children, strict=True
        ):
            position = self._take(line, kind, -1)
            keys.append(key)
            if repeats:
                self._fix((line, *repeats))
            if not all(self._agree(line, repeat) for repeat in repeats):
                self._values[kind][position] = exposition.NAN
                if kind is SectionKind.COUNTERS:
                    self._spoiled.add(position)
                self._page.problems.add_series(family.family, key.engine, _TWICE)

    # -- histograms ---------------------------------------------------------------------------------------

    def _add_histograms(self, family: Family) -> None:
        children = by_child(family)
        for key, lines in zip(keys_of(family, [c[0] for c in children], self._replicas), children, strict=True):
            self._sum_first = self._sum_first or [line.part for line in lines[:2]] == ["sum", "bucket"]
            parts = _parts(lines)
            bounds = tuple(sorted(bound for bound in parts.buckets if bound != inf))
            edges = self._edges.setdefault(bounds, bounds)
            self._histograms.append(HistogramKey(key, edges))
            top = parts.buckets.get(inf, parts.count)
            if top is None:
                wrong = "neither a +Inf bucket nor a _count: how many it counts is not known"
            elif not all(self._agree(line, repeat) for line, repeat in parts.repeats):
                wrong = _TWICE
            else:
                if inf not in parts.buckets:
                    self._without_top.append(f"{family.family} of engine {key.engine}" if key.engine else family.family)
                self._places.append(self._place(family, [*(parts.buckets[e] for e in edges), top], parts))
                self._fix(line for pair in parts.repeats for line in pair)
                continue
            self._fix(lines)
            self._places.append(None)
            self._page.problems.add_series(family.family, key.engine, wrong)

    def _place(self, family: Family, counted: list[Line], parts: _Parts) -> HistogramPlace:
        """Read the lines of a histogram, in page order; `counted` are its buckets by edge, the last above the top."""
        total, count = parts.total, parts.count
        lines = {line.number: line for line in (*counted, total, count) if line is not None}
        series = len(self._places)
        at = {number: self._take(lines[number], SectionKind.HISTOGRAM, series) for number in sorted(lines)}
        order = tuple(at[line.number] for line in counted)
        in_page_order = order == tuple(range(order[0], order[0] + len(order)))
        return HistogramPlace(
            family.family,
            order[0],
            len(order),
            None if in_page_order else order,
            -1 if total is None else at[total.number],
            -1 if count is None or count is counted[-1] else at[count.number],
        )


def _parts(lines: list[Line]) -> _Parts:
    parts = _Parts()
    for line in lines:
        first = line
        if line.part == "bucket" and line.labels.edge is not None:
            first = parts.buckets.setdefault(line.labels.edge, line)
        elif line.part == "sum":
            first = parts.total = parts.total or line
        elif line.part == "count":
            first = parts.count = parts.count or line
        if first is not line:
            parts.repeats.append((first, line))
    return parts
