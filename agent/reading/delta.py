"""What one page changes. In: the structure of the page before, and a page's text. Out: the values that may differ.

Most of a page is the page before. A section whose text is the same is passed over by one comparison; of one that
moves, every value is read. Nothing of the structure is touched until the whole page has proved to have it: then the
changes are taken over at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import eq

from agent.reading import exposition
from agent.reading.section import Section, SectionKind

_GROWTH_PER_LINE = 24
"""Characters a value can grow by from one page to the next: from `0.0` to `-1.2345678901234567e-300`."""


@dataclass(slots=True)
class Delta:
    """What a page changes: values, and what is kept of sections. `parts` replace a section, by its place."""

    values: list[tuple[Section, list[float]]] = field(default_factory=list)
    texts: list[tuple[Section, str]] = field(default_factory=list)
    parts: dict[int, list[Section]] = field(default_factory=dict)

    def reshape(self, sections: list[Section]) -> list[Section]:
        """Return the sections with which the next page is compared."""
        for section, text in self.texts:
            section.text = text
        if not self.parts:
            return sections
        return [part for number, section in enumerate(sections) for part in self.parts.get(number, (section,))]


def numbers(lines: Sequence[str], keys: Sequence[str]) -> list[float] | None:
    """Return the values of lines that begin with `keys`, UNREADABLE for what is no number; None when a key differs."""
    texts = list(map(str.removeprefix, lines, keys))
    if True in map(eq, texts, lines):
        # A key that is not there leaves its line whole.
        return None
    values: list[float] = []
    last_text = ""
    value = exposition.UNREADABLE
    # The upper buckets of a histogram mostly repeat one count, and reading a number is the dearest step here.
    for text in texts:
        if text != last_text:
            last_text = text
            try:
                value = float(text)
            except ValueError:
                value = exposition.value(text)
            if value != value:
                value = exposition.NAN
        values.append(value)
    return values


def delta(sections: Sequence[Section], known: Sequence[list[float]], text: str) -> Delta | None:
    """Compare a page with the structure of the one before; `known` are its values by kind.

    Returns None for a page of another structure.
    """
    found = Delta()
    position = 0
    for number, section in enumerate(sections):
        before = section.text
        if text.startswith(before, position):
            position += len(before)
            continue
        # A section has as many lines as before; how long they are now is not known.
        count = len(section.key_lengths)
        window = text[position : position + len(before) + _GROWTH_PER_LINE * count]
        lines = window.split("\n", count)
        if len(lines) <= count:
            return None
        start, position = position, position + len(window) - len(lines.pop())
        keys = section.keys
        if keys is not None:
            found.texts.append((section, text[start:position]))
            if not _note(found, section, lines, keys, known):
                return None
            continue
        parts = section.cut(lines)
        if parts is None:
            return None
        found.parts[number] = [part for part, _ in parts]
        for part, where in parts:
            if part.keys is not None and not _note(found, part, lines[where.start : where.stop], part.keys, known):
                return None
    return found if position == len(text) else None


def _note(
    found: Delta, section: Section, lines: Sequence[str], keys: Sequence[str], known: Sequence[list[float]]
) -> bool:
    """Note the values of a section whose lines may have changed; False when a key differs."""
    if section.kind is SectionKind.REST:
        return True not in map(eq, map(str.removeprefix, lines, keys), lines)
    values = numbers(lines, keys)
    if values is None:
        return False
    start = section.start
    if values != known[section.kind][start : start + len(values)]:
        found.values.append((section, values))
    return True
