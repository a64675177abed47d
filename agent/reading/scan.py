"""The first look at a page. In: its lines. Out: which lines hold what pdwatch reads, by family, with their labels.

Label texts repeat from family to family (every latency histogram of an engine has the same), so each distinct text
is parsed once per page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

from agent.errors import NotVllm, PageTooLarge
from agent.reading import exposition
from agent.reading.name import Name, Part
from agent.reading.names import ROUTER_FAMILIES, SampleName
from agent.reading.problems import Problems

EOF = "# EOF"
"""The last line of an OpenMetrics page."""

UNLABELLED_ENGINE = "0"
"""The engine of pages from before the `engine` label: such a server has one."""

MOST_LINE_CHARACTERS = 16_384
"""A longer line is none of a metrics page's; taking it apart would cost seconds, and its labels be kept for hours."""

MOST_LINES = 400_000
"""As many as a page of the largest size has when they are as long as vLLM's; a million takes a gigabyte to read."""


class Labels(NamedTuple):
    """The labels of a line, apart from `le`: two lines of one child have the same `child`."""

    given: Mapping[str, str]
    child: int
    edge: float | None


class Line(NamedTuple):
    """One wanted sample line: its number on the page, where its value begins, what it holds."""

    number: int
    key_length: int
    part: Part
    labels: Labels


@dataclass(slots=True)
class Family:
    """The lines of one family, in page order."""

    family: str
    name: Name
    rank: int
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class Scan:
    """A page taken apart. `key_lengths` has one entry per line, 0 for comments and for lines that cannot be read."""

    lines: list[str]
    key_lengths: list[int]
    families: dict[str, Family]
    types: dict[str, str]
    problems: Problems
    samples: int

    def take(self, sample: SampleName, line: Line) -> None:
        """Put a line to its family's."""
        family = self.families.get(sample.family)
        if family is None:
            family = self.families[sample.family] = Family(sample.family, sample.name, sample.rank)
        family.lines.append(line)


def scan(text: str, wanted: Mapping[str, SampleName], max_engines: int) -> Scan:
    """Take a page apart, whose last line has an end; `wanted` is the table of sample names.

    Raises PageTooLarge past `max_engines` and past MOST_LINES.
    """
    if text.count("\n") > MOST_LINES:
        raise PageTooLarge(f"more than {MOST_LINES} lines on one page: is this one server's page?")
    lines = text.split("\n")[:-1]
    page = Scan(lines, [0] * len(lines), {}, {}, Problems(), 0)
    escapes = "\\" in text
    labels_of = _LabelTable(max_engines)
    for number, line in enumerate(lines):
        if line.startswith("#") or not line or line.isspace():
            declared = exposition.declaration(line)
            if declared is not None:
                page.types.setdefault(declared.family, declared.kind)
            continue
        if len(line) > MOST_LINE_CHARACTERS:
            page.problems.add(f"line {number + 1} is {len(line)} characters long and not read: {line[:80]!r}")
            continue
        # Where nothing is escaped, the first `"} ` ends the labels: a quote inside them would have to be escaped.
        name, _, rest = line.partition("{")
        labels_text, close, value = rest.partition('"} ')
        key_length = len(line) - len(value)
        sample = wanted.get(name)
        if escapes or not close or (sample is None and (not name or " " in name or "\t" in name)):
            found = exposition.key(line)
            if found is None:
                page.problems.add(f"line {number + 1} is not a sample: {line[:80]!r}")
                continue
            name, labels_text, key_length = found
            sample = wanted.get(name)
        else:
            labels_text += '"'
        if sample is not None:
            labels = labels_of[labels_text]
            if labels is None and (found := exposition.key(line)) is not None:
                # A comma before the closing brace, and an exemplar whose end was taken for the labels'.
                _, labels_text, key_length = found
                labels = labels_of[labels_text]
            if labels is None or (sample.part == "bucket" and labels.edge is None):
                page.problems.add(f"line {number + 1} has broken labels: {line[:80]!r}")
                continue
            if sample.name.reads(labels.given):
                page.take(sample, Line(number, key_length, sample.part, labels))
        page.samples += 1
        page.key_lengths[number] = key_length
    return page


class _LabelTable(dict[str, Labels | None]):
    """Label text -> labels, each text parsed once; None when it is broken."""

    def __init__(self, max_engines: int) -> None:
        super().__init__()
        self._max_engines = max_engines
        self._engines: set[str] = set()
        self._children: dict[tuple[tuple[str, str], ...], int] = {}

    def __missing__(self, text: str) -> Labels | None:
        labels = self[text] = self._parsed(text)
        if labels is not None and "engine" in labels.given:
            self._engines.add(labels.given["engine"])
            if len(self._engines) > self._max_engines:
                raise PageTooLarge(f"more than {self._max_engines} engines on one page: is this one server's page?")
        return labels

    def _parsed(self, text: str) -> Labels | None:
        given = exposition.labels(text)
        if given is None:
            return None
        edge: float | None = None
        bound = given.pop("le", None)
        if bound is not None:
            edge = exposition.value(bound)
            if not edge > exposition.UNREADABLE:
                return None
        child = self._children.setdefault(tuple(sorted(given.items())), len(self._children))
        return Labels({intern(name): intern(value) for name, value in given.items()}, child, edge)


def refuse_routers(page: Scan) -> None:
    """Raise NotVllm for a router's page: production-stack's shows figures about other servers under vLLM's names."""
    by_server = any(
        "server" in line.labels.given and line.labels.given.keys().isdisjoint(("engine", "model_name"))
        for family in page.families.values()
        if family.name.vllm
        for line in family.lines[:1]
    )
    vllm_router = any(family.startswith("vllm_router_") for family in page.types)
    if by_server or vllm_router or not ROUTER_FAMILIES.isdisjoint(page.types):
        raise NotVllm(
            "this is a router's page, whose metrics are about other servers; "
            "give the address of a vLLM server, or list this one under router"
        )
