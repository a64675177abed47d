"""The whole screen, or the whole report. In: what was seen, a view, a size. Out: lines that fit it.

On a screen the verdicts and pools stand first and whole; engines, memory and problems share the rows that are left, and
each has a page of its own for whoever wants all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.text import Text

from agent.outputs.terminal import words
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.engines import engine_lines, engines_of
from agent.outputs.terminal.sections import (
    SEVERITY_STYLES,
    memory_lines,
    pool_lines,
    problem_counts,
    problem_lines,
    verdict_lines,
)
from agent.outputs.terminal.view import PAGES, SORTINGS, View

LEAST_WIDTH = 20
SENTENCE_LINES = 3
PROBLEM_LINES = 2
WIDE = 110
ROOMY_HEIGHT = 30
"""From this height on the sections stand apart by an empty line."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The last document, how many seconds ago it came, and why no newer one does ("" while they do)."""

    document: Part
    waited: float = 0.0
    trouble: str = ""


def report(seen: Seen, width: int) -> list[Text]:
    """Everything once, from top to bottom, for a script or a log."""
    document = seen.document
    sections = [
        [_head(seen, width)],
        verdict_lines(document, width, None),
        pool_lines(document, width),
        engine_lines(document, View(), width, seen.waited, 0, None),
        memory_lines(document, width),
        [line for lines in problem_lines(document, width, None) for line in lines] or [Text("no problems", end="")],
    ]
    return _apart([section for section in sections if section], apart=True)


def screen(seen: Seen, view: View, width: int, height: int) -> list[Text]:
    """Exactly `height` lines; the last says the keys."""
    width = max(LEAST_WIDTH, width)
    body = _overview(seen, view, width, height - 2) if view.page == "overview" else _page(seen, view, width, height - 2)
    body = body[: max(0, height - 2)]
    empty = [Text("", end="")] * (height - 2 - len(body))
    return [_head(seen, width), *body, *empty, _footer(view, width)][:height]


def most_offset(seen: Seen, view: View, width: int, height: int) -> int:
    """How far down a page can be scrolled: the last line reaches the bottom."""
    if view.page == "overview":
        return 0
    if view.page == "problems":
        return max(0, len(_all_problems(seen, width)) - (height - 2))
    rows = len(engines_of(seen.document)) if view.page == "engines" else len(seen.document.each("memory"))
    return max(0, rows - (height - 3))


def _page(seen: Seen, view: View, width: int, rows: int) -> list[Text]:
    first, most = view.offset, max(1, rows - 1)
    if view.page == "engines":
        found = engine_lines(seen.document, view, width, seen.waited, first, most)
    elif view.page == "memory":
        found = memory_lines(seen.document, width, first, most)
    else:
        found = _all_problems(seen, width)[first : first + rows]
    return found or [Text(f"no {view.page}", "dim", end="")]


def _all_problems(seen: Seen, width: int) -> list[Text]:
    return [line for lines in problem_lines(seen.document, width, None) for line in lines]


def _overview(seen: Seen, view: View, width: int, rows: int) -> list[Text]:
    document, gap = seen.document, rows + 2 >= ROOMY_HEIGHT
    first = [verdict_lines(document, width, SENTENCE_LINES), pool_lines(document, width)]
    problems = problem_lines(document, width, PROBLEM_LINES)
    engines, processes = len(engines_of(document)), len(document.each("memory"))
    wants = [engines + 1 if engines else 0, processes + 1 if processes else 0, sum(map(len, problems))]
    gaps = (len(first) - 1 + sum(map(bool, wants))) if gap else 0
    given = _shared(wants, rows - sum(map(len, first)) - gaps)

    def rows_of(make: Callable[[int], list[Text]], all_rows: int, room: int) -> list[Text]:
        """The head and as many rows as there is room for; the last one says how many are left out."""
        if room >= all_rows + 1:
            return make(all_rows)
        if room < 3:
            return [_more(all_rows, "rows")][:room] if all_rows else []
        return [*make(room - 2), _more(all_rows - (room - 2), "more")]

    sections = [
        *first,
        rows_of(lambda most: engine_lines(document, view, width, seen.waited, 0, most), engines, given[0]),
        rows_of(lambda most: memory_lines(document, width, 0, most), processes, given[1]),
        _fitting(problems, given[2]),
    ]
    return _apart([section for section in sections if section], gap)


def _fitting(problems: Sequence[list[Text]], room: int) -> list[Text]:
    """As many whole problems as there is room for."""
    if sum(map(len, problems)) <= room:
        return [line for lines in problems for line in lines]
    shown: list[Text] = []
    for number, lines in enumerate(problems):
        if len(shown) + len(lines) > room - 1:
            return [*shown, _more(len(problems) - number, "more")][: max(0, room)]
        shown += lines
    return shown


def _more(count: int, noun: str) -> Text:
    return Text(f"… {count} {noun}", "dim", end="")


def _shared(wants: Sequence[int], rows: int) -> list[int]:
    """Rows given out one by one, to those who want more still."""
    given = [0] * len(wants)
    while rows > 0 and given != list(wants):
        for index, want in enumerate(wants):
            if given[index] < want and rows > 0:
                given[index] += 1
                rows -= 1
    return given


def _apart(sections: Sequence[list[Text]], apart: bool) -> list[Text]:
    lines: list[Text] = []
    for section in sections:
        if lines and apart:
            lines.append(Text("", end=""))
        lines += section
    return lines


def _head(seen: Seen, width: int) -> Text:
    """Name, moment, window, age of the data, and how many problems there are; or that nothing new comes."""
    document = seen.document
    at, window = document.number("at"), document.number("window_s")
    line = Text(no_wrap=True, end="")
    if seen.trouble:
        line.append(f"CONNECTION LOST {words.age(seen.waited)} ago", "bold red")
        line.append(f" ({seen.trouble}); below is what was then")
        line.truncate(width, overflow="ellipsis")
        return line
    line.append(f"pdwatch {document.text('deployment')}".rstrip(), "bold")
    for severity, count in problem_counts(document):
        line.append(f"  {count} {severity}", SEVERITY_STYLES.get(severity, ""))
    if down := sum(target.says("up") is False for target in _targets(document)):
        line.append(f"  {down} down", "bold red")
    said = [_oldest(document, seen.waited), _moment(at), "" if window is None else f"last {words.age(window)}"]
    for part in filter(None, said):
        if line.cell_len + 2 + len(part) <= width:
            line.append(f"  {part}", "")
    line.truncate(width, overflow="ellipsis")
    return line


def _moment(at: float | None) -> str:
    try:
        return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _oldest(document: Part, waited: float) -> str:
    """The age of the oldest page among the targets that answer."""
    ages = [
        age
        for target in _targets(document)
        if (age := target.number("age_s")) is not None and target.says("up") is not False
    ]
    return f"data {words.age(max(ages) + waited)} old" if ages else "no data yet"


def _targets(document: Part) -> list[Part]:
    return [target for _, pool in document.items("pools") for _, target in pool.items("targets")]


def _footer(view: View, width: int) -> Text:
    line = Text(no_wrap=True, end="")
    line.append("q", "bold").append(" quit  ").append("tab", "bold")
    if width >= WIDE:
        for page in PAGES:
            line.append(" ").append(page, "reverse" if page == view.page else "")
    else:
        line.append(f" page {PAGES.index(view.page) + 1}/{len(PAGES)}")
    line.append(" ")
    for key, sorting in SORTINGS.items():
        chosen = " reverse" if key == view.sort else ""
        line.append(" ").append(key, f"bold{chosen}").append(f" {sorting.said}", chosen.strip())
    if view.page != "overview":
        line.append("  ↑↓ scroll")
    line.truncate(width, overflow="crop")
    return line
