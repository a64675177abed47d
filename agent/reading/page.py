"""One target's pages, one after another. In: a page's text. Out: a `Reading` of what it says, and of what is new.

The structure of a page hardly ever changes, so the reader keeps the last page in sections and looks only at those that
differ. Whatever is not exactly the structure it knows is read anew, from the first line.
"""

from __future__ import annotations

from math import isfinite

from agent.errors import PageError
from agent.model import HistogramValue, Layout, Reading
from agent.reading.check import Checks
from agent.reading.delta import Delta, delta
from agent.reading.layout import Structure, structure_of
from agent.reading.scan import EOF, scan
from agent.reading.section import SectionKind
from agent.reading.vocabulary import Vocabulary, vllm


class PageReader:
    """Reads the pages of one target, in the order they were taken.

    `prefix` stands before (or in place of) `vllm:` after a relabelling; `max_engines` bounds what one page may hold.
    `vocabulary`: what to read when it is no vLLM server's page.
    """

    def __init__(self, prefix: str = "", max_engines: int = 4096, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary or vllm(prefix)
        self._max_engines = max_engines
        self._structure: Structure | None = None
        self._checks = Checks()

    def read(
        self, t: float, target: str, text: str, content_type: str = "", took_seconds: float | None = None
    ) -> Reading:
        """Read the page that `target` gave at `t` (unix seconds).

        Raises PageError for a page of which nothing can be used: NotVllm (for a router NotRouter) when it holds no
        metric of its kind, PageTooLarge past `max_engines`, PageError itself when it was cut off. The reader then
        stands where it stood before.
        """
        text = self._complete(text, content_type)
        known = self._structure
        changes = None if known is None else delta(known.sections, known.values, text)
        fresh = False
        if known is not None and changes is not None:
            counters, histograms = self._take(known, changes)
        else:
            structure = self._structure_of(text)
            fresh = known is None or not _same(known.layout, structure.layout)
            if known is not None and not fresh:
                structure.layout = known.layout
            counters, histograms = self._take_anew(None if fresh else known, structure)
            self._structure = known = structure
        return Reading(
            t=t,
            target=target,
            layout=known.layout,
            counters=counters,
            histograms=histograms,
            gauges=[value if isfinite(value) else None for value in known.values[SectionKind.GAUGES]],
            fresh=fresh,
            problems=self._checks.problems(known),
            samples=known.samples,
            took_seconds=took_seconds,
            page_bytes=len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")),
        )

    def _complete(self, text: str, content_type: str) -> str:
        """Return the text with its last line ended; one that breaks off would seem to have lost families."""
        ended = text.endswith("\n")
        if ended and "openmetrics" not in content_type:
            return text
        if not self._vocabulary.is_on(text) or text[:1024].lstrip().startswith("<"):
            raise self._vocabulary.refusal(text)
        if text[-64:].rstrip().endswith(EOF):
            return text if ended else text + "\n"
        missing = "'# EOF' at the end" if ended else "the end of its last line"
        raise PageError(f"the page was cut off after {len(text)} characters: it lacks {missing}")

    def _structure_of(self, text: str) -> Structure:
        words = self._vocabulary
        if not words.is_on(text):
            raise words.refusal(text)
        page = scan(text, words.samples, self._max_engines)
        words.check(page)
        if not page.families and not any(family.startswith(words.marks) for family in page.types):
            raise words.refusal(text)
        return structure_of(page, words.families)

    def _take(self, known: Structure, changes: Delta) -> tuple[dict[int, float], dict[int, HistogramValue]]:
        """Make the changes the known state; return the counters and histograms that differ."""
        known.sections = changes.reshape(known.sections)
        checks = self._checks
        counters: dict[int, float] = {}
        histograms: dict[int, HistogramValue] = {}
        touched: dict[int, None] = {}
        for section, now in changes.values:
            start = section.start
            values = known.values[section.kind]
            if section.kind is SectionKind.HISTOGRAM:
                values[start : start + len(now)] = now
                touched[section.series] = None
                continue
            before = values[start : start + len(now)]
            values[start : start + len(now)] = now
            for index, (value, value_before) in enumerate(zip(now, before, strict=True), start):
                if value == value_before:
                    continue
                if section.kind is SectionKind.GAUGES:
                    checks.gauge(known, index)
                elif checks.counter(known, index):
                    counters[index] = value
        for index in touched:
            histogram = checks.histogram(known, index)
            if histogram is not None:
                histograms[index] = histogram
        return counters, histograms

    def _take_anew(self, known: Structure | None, new: Structure) -> tuple[dict[int, float], dict[int, HistogramValue]]:
        """Check every value of a new structure; return those that differ from the known ones, or all of them."""
        before = self._checks
        self._checks = checks = Checks()
        counters = {
            index: value
            for index, value in enumerate(new.values[SectionKind.COUNTERS])
            if checks.counter(new, index) and (known is None or value != known.values[SectionKind.COUNTERS][index])
        }
        histograms = {}
        for index in range(len(new.places)):
            value = checks.histogram(new, index)
            if value is not None and (known is None or value != before.histogram(known, index)):
                histograms[index] = value
        for index in range(len(new.values[SectionKind.GAUGES])):
            checks.gauge(new, index)
        return counters, histograms


def _same(one: Layout, other: Layout) -> bool:
    return (
        one.counters == other.counters
        and one.gauges == other.gauges
        and one.histograms == other.histograms
        and one.engines == other.engines
        and one.names == other.names
        and one.info == other.info
        and one.multiprocess == other.multiprocess
    )
