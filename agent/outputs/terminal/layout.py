"""Tables that fit. In: columns with their importance, rows, a width. Out: lines no wider than that.

What does not fit is left out column by column, the least important first; then the first column is clipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from agent.outputs.terminal.words import clip

GAP = "  "
HEAD_STYLE = "bold"
LEAST_FIRST_CELLS = 12
_HOLD = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[a-zA-Zµ]{1,3})\b|%)")
"""The space between a number and its unit, where a line must not end."""


@dataclass(frozen=True, slots=True)
class Column:
    """`importance`: columns with less of it are left out first. The first column always stays, left-aligned."""

    title: str
    importance: int = 0
    left: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its style."""

    text: str
    style: str = ""


Row = Sequence[Cell | str]


def table(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[Text]:
    """The head and one line for each row."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    shown = _columns_that_fit(columns, cells, width)
    widths = {index: _width(columns[index], index, cells) for index in shown}
    rest = width - sum(widths[index] + len(GAP) for index in shown[1:])
    widths[shown[0]] = max(1, min(widths[shown[0]], rest))
    head = [Cell(column.title, HEAD_STYLE) for column in columns]
    return [_line(row, columns, shown, widths, width) for row in (head, *cells)]


def _width(column: Column, index: int, rows: Sequence[Sequence[Cell]]) -> int:
    return max(cell_len(column.title), *(cell_len(row[index].text) for row in rows)) if rows else cell_len(column.title)


def _columns_that_fit(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    widths = [_width(column, index, rows) for index, column in enumerate(columns)]
    widths[0] = min(widths[0], LEAST_FIRST_CELLS)
    # A column that says nothing in any row leaves its place to others.
    shown = [
        index
        for index, column in enumerate(columns)
        if not index or not rows or any(row[index].text.strip("- ") for row in rows) or column.importance >= ALWAYS
    ]
    while len(shown) > 1 and sum(widths[index] for index in shown) + len(GAP) * (len(shown) - 1) > width:
        shown.remove(min(shown[1:], key=lambda index: (columns[index].importance, -index)))
    return shown


ALWAYS = 100
"""A column of this importance stands even where it says nothing."""


def _line(
    row: Sequence[Cell], columns: Sequence[Column], shown: Sequence[int], widths: dict[int, int], width: int
) -> Text:
    line = Text(no_wrap=True, end="")
    for position, index in enumerate(shown):
        cell, cells = row[index], widths[index]
        text = clip(cell.text, cells)
        room = " " * (cells - cell_len(text))
        if position:
            line.append(GAP)
        if columns[index].left or not index:
            line.append(text, cell.style).append(room)
        else:
            line.append(room).append(text, cell.style)
    line.rstrip()
    line.truncate(width)
    return line


def wrapped(text: Text, width: int, indent: int, most_lines: int | None = None, begin: str = "") -> list[Text]:
    """The text in lines of this width, the first after `begin`, the others indented; what is left out is marked."""
    indent = min(indent, max(0, width - 10))
    held = text.copy()
    held.plain = _BEFORE_UNIT.sub(_HOLD, text.plain)
    words = held.split(" ")
    lines: list[Text] = []
    line = Text(begin, end="")
    for word in words:
        word = word if cell_len(word.plain) <= width - indent else Text(clip(word.plain, width - indent), word.style)
        if line.plain.strip() and line.cell_len + 1 + word.cell_len > width:
            lines.append(line)
            line = Text(" " * indent, end="")
        if line.plain.strip():
            line.append(" ")
        line.append_text(word)
    lines.append(line)
    if most_lines is not None and len(lines) > most_lines:
        last = lines[most_lines - 1]
        last.truncate(width - 2)
        last.append(" …")
        lines = lines[:most_lines]
    for line in lines:
        line.plain = line.plain.replace(_HOLD, " ")
    return lines
