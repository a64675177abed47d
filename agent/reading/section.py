"""A page's text in sections. In: its lines and what each holds. Out: runs of lines that are compared as one.

A section is (a part of) one histogram of one engine, or a run of counter, gauge or other lines. One comparison of its
whole text passes over it while nothing in it changes. Once it has changed it is known to move, and the keys of its
lines are kept as well: the values are whatever follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from sys import intern

JOINED = 4
"""Fewer unchanged lines than this between changed ones are not worth a section of their own."""


class SectionKind(IntEnum):
    """What the lines of a section hold; the first three are also positions in `Structure.values`."""

    COUNTERS = 0
    GAUGES = 1
    HISTOGRAM = 2
    REST = 3


@dataclass(slots=True)
class Section:
    """Consecutive lines, whose values are consecutive values of the section's kind, from `start` on.

    `series` is the histogram they belong to. A key length of 0 marks a line that must not change at all: a comment, or
    a line that cannot be read. A section that has changed before has `keys`.
    """

    kind: SectionKind
    series: int
    start: int
    key_lengths: tuple[int, ...]
    text: str
    keys: tuple[str, ...] | None = None

    def cut(self, lines: Sequence[str]) -> list[tuple[Section, range]] | None:
        """Cut a section that has these lines now into parts that stayed and parts that move.

        Returns each part with its range of lines, in order; None when a line that changed has not the key that it had.
        """
        lengths = self.key_lengths
        changed = []
        for number, (line, before) in enumerate(zip(lines, self.text.split("\n"), strict=False)):
            if line != before:
                length = lengths[number]
                if not length or line[:length] != before[:length]:
                    return None
                changed.append(number)
        parts = []
        for first, after, moves in _runs(changed, lengths):
            start = self.start + first if self.start >= 0 else -1
            part = Section(self.kind, self.series, start, lengths[first:after], _text(lines[first:after]))
            if moves:
                # Servers of one deployment mostly have the same keys: interned, they take memory once.
                part.keys = tuple(intern(lines[number][: lengths[number]]) for number in range(first, after))
            parts.append((part, range(first, after)))
        return parts


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _runs(changed: list[int], lengths: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield (first line, line after, whether it moves) for the runs of a section of which `changed` lines changed."""
    position = 0
    first = after = 0
    for number in (*changed, len(lengths)):
        if number - after < JOINED and all(lengths[after:number]):
            after = min(number + 1, len(lengths))
            continue
        if first > position:
            yield position, first, False
        if after > first:
            yield first, after, True
        position = after
        first, after = number, min(number + 1, len(lengths))
    if first > position:
        yield position, first, False
    if after > first:
        yield first, after, True


def sections(
    lines: Sequence[str], key_lengths: Sequence[int], places: Iterable[tuple[SectionKind, int, int]]
) -> list[Section]:
    """Cut a page into sections; `places` says per line its kind, histogram and position among the kind's values."""
    found: list[Section] = []
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}

    def run(numbered: tuple[int, tuple[SectionKind, int, int]]) -> tuple[SectionKind, int, int]:
        number, (kind, series, start) = numbered
        return (kind, series, start - number if kind is not SectionKind.REST else 0)

    for (kind, series, _), numbered in groupby(enumerate(places), run):
        members = list(numbered)
        first, after = members[0][0], members[-1][0] + 1
        lengths = tuple(key_lengths[first:after])
        start = members[0][1][2]
        found.append(Section(kind, series, start, shared.setdefault(lengths, lengths), _text(lines[first:after])))
    return found
