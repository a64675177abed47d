"""Charts of a board's panels as SVG. In: a panel, the series of its queries, words for the time axis. Out: SVG text.

Not Grafana's drawing: lines, bands, stacks, state rows and tables in plain shapes, from the same title, unit, legend,
colours and mappings that the panel gives to Grafana.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import floor, log10
from typing import Any, NamedTuple

Json = Mapping[str, Any]
Points = Sequence[tuple[float, float]]
"""(unix seconds, value)"""
Scale = Callable[[float], float]
"""Value -> pixels from the top."""

PALETTE = ("#1f6fb4", "#d1720c", "#2c8a3d", "#a03a8f", "#7a5a2e", "#0e8d94", "#b8860b", "#5b5fc7")
NAMED = {"red": "#c4162a", "green": "#2c8a3d", "blue": "#1f6fb4", "orange": "#e08400", "yellow": "#d8b400"}
INK, SOFT, GRID, FRAME = "#1f2328", "#5f6670", "#e4e7eb", "#c9ced6"
WIDTH, HEIGHT = 480.0, 250.0
LEFT, RIGHT, TOP = 62.0, 12.0, 34.0
MOST_LEGENDS = 5
LONG_NAME = 30
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY = tuple((1024.0**power, word) for power, word in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"), (0, "B")))
SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    # Grafana's unit: (its size, its word), the largest first
    "s": ((3600.0, " h"), (60.0, " min"), (1.0, " s"), (0.001, " ms")),
    "percentunit": ((0.01, " %"),),
    "bytes": tuple((size, f" {word}") for size, word in _BINARY),
    "Bps": tuple((size, f" {word}/s") for size, word in _BINARY),
    "reqps": ((1.0, " req/s"),),
    "ops": ((1.0, " /s"),),
    "short": ((1000.0, " k"), (1.0, "")),
}


@dataclass(frozen=True, slots=True)
class Series:
    """What one query returned under one name. `letter`: of the query in the panel."""

    letter: str
    name: str
    points: Points


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that is shown, unix seconds; `zero` is minute 0 of the axis. `events`: (begin, end) in grey behind."""

    begin: float
    end: float
    zero: float
    events: Sequence[tuple[float, float]] = field(default_factory=tuple)

    def x(self, t: float) -> float:
        """Pixels from the left edge of a panel."""
        return LEFT + (t - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)


def chart(panel: Json, series: Sequence[Series], stretch: Stretch) -> str:
    """A panel of lines or of states, WIDTH by HEIGHT."""
    body = _states(panel, series, stretch) if panel["type"] == "state-timeline" else _lines(panel, series, stretch)
    return "".join([_frame(WIDTH, HEIGHT), _title(str(panel["title"])), *body])


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], width: float) -> tuple[str, float]:
    """(SVG, its height) of a table; the last column takes what is left and is wrapped."""
    narrow = [max([len(head), *(len(row[at]) for row in rows)]) * 7.0 + 16 for at, head in enumerate(header[:-1])]
    lefts = [12.0]
    for one in narrow:
        lefts.append(lefts[-1] + one)
    room = int((width - lefts[-1] - 12) / 5.9)
    parts, y = [_title(title)], TOP + 20
    parts += [_text(left, y, head, color=SOFT) for left, head in zip(lefts, header, strict=True)]
    for row in rows:
        y += 20
        parts += [_text(left, y, cell) for left, cell in zip(lefts, row[:-1], strict=False)]
        for number, line in enumerate(_wrapped(row[-1], room)):
            y += 16 if number else 0
            parts.append(_text(lefts[-1], y, line))
    return _frame(width, y + 14) + "".join(parts), y + 14


def document(width: float, height: float, parts: Iterable[tuple[float, float, str]], words: str) -> str:
    """The whole picture: (x, y, SVG) of each part; `words` for those who do not see it."""
    placed = "\n".join(f'<g transform="translate({x:g},{y:g})">{text}</g>' for x, y, text in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'aria-label="{escape(words)}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width:g}" height="{height:g}" fill="#f4f5f7"/>\n{placed}\n</svg>\n'
    )


class Axis(NamedTuple):
    """`ticks` in the metric's unit, each shown divided by `divisor` and followed by `word`."""

    ticks: Sequence[float]
    divisor: float
    word: str


def axis(most: float, least: float, unit: str) -> Axis:
    """Three to six round values around all that is shown, in the largest unit of which there are two."""
    units = SCALES.get(unit, SCALES["short"])
    extent = max(most, -least)
    divisor, word = next(((size, word) for size, word in units if extent >= 2 * size), units[-1])
    most, least = most / divisor, least / divisor
    span = max(most - least, 1e-9)
    magnitude = 10.0 ** floor(log10(span / 4))
    step = next(one for one in STEPS if one * magnitude >= span / 5) * magnitude
    first = floor(least / step + 1e-9)
    ticks = [first * step]
    while ticks[-1] < most or len(ticks) < 2:
        ticks.append((first + len(ticks)) * step)
    return Axis([tick * divisor for tick in ticks], divisor, word)


# -- lines, bands, stacks ---------------------------------------------------------------------------------------------


def _lines(panel: Json, series: Sequence[Series], stretch: Stretch) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    looks = {one.name + one.letter: _look(panel, one.letter, at) for at, one in enumerate(series)}
    drawn = list(_piled(series)) if stacked else list(series)
    named = _legend(drawn, {key: look.color for key, look in looks.items()})
    abreast = 1 if any(len(name) > LONG_NAME for name, _ in named) else 2
    bottom = HEIGHT - 30 - 15 * -(-len(named) // abreast)
    unit = defaults.get("unit", "short")
    values = [value for one in drawn for _, value in one.points]
    ticks, divisor, word = axis(max(values, default=1.0), min([0.0, *values]), unit)
    low, high = ticks[0], ticks[-1]

    def y(value: float) -> float:
        return bottom - (min(max(value, low), high) - low) / (high - low) * (bottom - TOP)

    yield from _axes(stretch, bottom)
    for tick in ticks:
        yield f'<path d="M{LEFT:g} {y(tick):.1f}H{WIDTH - RIGHT:g}" stroke="{GRID}"/>'
        yield _text(LEFT - 6, y(tick) + 4, f"{round(tick / divisor, 6):g}{word}", color=SOFT, anchor="end")
    for one in reversed(drawn) if stacked else drawn:
        look = looks[one.name + one.letter]
        lower = next((o.points for o in drawn if look.band_to and o.name.startswith(look.band_to)), None)
        if stacked:
            yield f'<path d="{_area(one.points, (), stretch, y)}" fill="{look.color}"/>'
            continue
        if lower is not None:
            yield f'<path d="{_area(one.points, lower, stretch, y)}" fill="{look.color}" fill-opacity="0.2"/>'
        if look.width:
            dash = ' stroke-dasharray="7 5"' if look.dashed else ""
            path = _path(one.points, stretch, y)
            yield f'<path d="{path}" fill="none" stroke="{look.color}" stroke-width="{look.width:g}"{dash}/>'
    for number in range(0, len(named), abreast):
        yield from _keys(named[number : number + abreast], bottom + 34 + 15 * (number // abreast), 210.0)


@dataclass(frozen=True, slots=True)
class _Look:
    color: str
    width: float = 1.6
    dashed: bool = False
    band_to: str = ""


def _look(panel: Json, letter: str, at: int) -> _Look:
    color, width, dashed, band_to = PALETTE[at % len(PALETTE)], 1.6, False, ""
    for override in panel["fieldConfig"].get("overrides", ()):
        if override["matcher"] != {"id": "byFrameRefID", "options": letter}:
            continue
        for one in override["properties"]:
            if one["id"] == "color":
                color = NAMED.get(one["value"]["fixedColor"], one["value"]["fixedColor"])
            elif one["id"] == "custom.lineWidth":
                width = float(one["value"])
            elif one["id"] == "custom.lineStyle":
                dashed = one["value"]["fill"] == "dash"
            elif one["id"] == "custom.fillBelowTo":
                band_to = str(one["value"])
    return _Look(color, width, dashed, band_to)


def _piled(series: Sequence[Series]) -> Iterator[Series]:
    """Each one on top of those before it."""
    height: dict[float, float] = {}
    for one in series:
        for t, value in one.points:
            height[t] = height.get(t, 0.0) + value
        yield Series(one.letter, one.name, [(t, height[t]) for t, _ in one.points])


def _runs(points: Points, stretch: Stretch) -> Iterator[Points]:
    """Stretches without a gap: what is not known is not drawn."""
    step = min((b - a for (a, _), (b, _) in pairwise(points)), default=0.0)
    run: list[tuple[float, float]] = []
    for t, value in points:
        if run and t - run[-1][0] > step * 1.5:
            yield run
            run = []
        if stretch.begin <= t <= stretch.end:
            run.append((t, value))
    if run:
        yield run


def _path(points: Points, stretch: Stretch, y: Scale) -> str:
    return "".join(
        "M" + "L".join(f"{stretch.x(t):.1f} {y(value):.1f}" for t, value in run) for run in _runs(points, stretch)
    )


def _area(upper: Points, lower: Points, stretch: Stretch, y: Scale) -> str:
    """Between two curves; down to 0 without a lower one."""
    floor_of = dict(lower)
    path = ""
    for run in _runs([one for one in upper if not lower or one[0] in floor_of], stretch):
        there = "L".join(f"{stretch.x(t):.1f} {y(value):.1f}" for t, value in run)
        back = "L".join(f"{stretch.x(t):.1f} {y(floor_of.get(t, 0.0)):.1f}" for t, _ in reversed(run))
        path += f"M{there}L{back}Z"
    return path


# -- states -----------------------------------------------------------------------------------------------------------


def _states(panel: Json, series: Sequence[Series], stretch: Stretch) -> Iterator[str]:
    words = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    bottom = HEIGHT - 48
    yield from _axes(stretch, bottom)
    room = (bottom - TOP) / max(len(series), 1)
    tall = min(room - 16, 22.0)
    used: dict[str, str] = {}
    for number, one in enumerate(series):
        top = TOP + number * room
        yield _text(LEFT, top + 11, one.name, size=11)
        changes = [one.points[0], *(after for before, after in pairwise(one.points) if after[1] != before[1])]
        for (t, value), (after, _) in pairwise([*changes, (one.points[-1][0], 0.0)]):
            option = words[f"{value:g}"]
            color = used[option["text"]] = NAMED.get(option["color"], option["color"])
            begin, wide = stretch.x(t), stretch.x(after) - stretch.x(t)
            yield f'<rect x="{begin:.1f}" y="{top + 15:.1f}" width="{wide:.1f}" height="{tall:.1f}" fill="{color}"/>'
    yield from _keys(list(used.items()), HEIGHT - 12)


# -- what all have ----------------------------------------------------------------------------------------------------


def _frame(width: float, height: float) -> str:
    return f'<rect width="{width:g}" height="{height:g}" rx="3" fill="#fff" stroke="{FRAME}"/>'


def _title(text: str) -> str:
    return f'<text x="12" y="20" fill="{INK}" font-weight="600" font-size="13">{escape(text)}</text>'


def _axes(stretch: Stretch, bottom: float) -> Iterator[str]:
    for begin, end in stretch.events:
        left, right = max(stretch.x(begin), LEFT), min(stretch.x(end), WIDTH - RIGHT)
        if right > left:
            size = f'width="{right - left:.1f}" height="{bottom - TOP:.1f}"'
            yield f'<rect x="{left:.1f}" y="{TOP:g}" {size} fill="#eef0f3"/>'
    minutes = (stretch.end - stretch.begin) / 60
    every = next(one for one in (5, 10, 20, 30, 60, 120, 240) if minutes / one <= 7)
    first = floor((stretch.begin - stretch.zero) / 60 / every + 0.999)
    for number in range(first, floor((stretch.end - stretch.zero) / 60 / every) + 1):
        x = stretch.x(stretch.zero + number * every * 60)
        anchor = "end" if x > WIDTH - RIGHT - 20 else "middle"
        yield _text(x, bottom + 15, f"{number * every} min", color=SOFT, anchor=anchor)
    yield f'<path d="M{LEFT:g} {bottom:.1f}H{WIDTH - RIGHT:g}" stroke="{FRAME}"/>'


def _legend(series: Sequence[Series], colors: Mapping[str, str]) -> list[tuple[str, str]]:
    """(name, colour) of the first few, and how many more there are."""
    named = [(one.name, colors[one.name + one.letter]) for one in series]
    if len(named) > MOST_LEGENDS:
        named = [*named[: MOST_LEGENDS - 1], (f"and {len(named) - MOST_LEGENDS + 1} more", SOFT)]
    return named


def _keys(named: Sequence[tuple[str, str]], y: float, apart: float = 0.0) -> Iterator[str]:
    x = 14.0
    for name, color in named:
        yield f'<rect x="{x:g}" y="{y - 9:g}" width="10" height="10" fill="{color}"/>' + _text(x + 15, y, name, size=11)
        x += apart or 15 + len(name) * 6.5 + 18


def _text(x: float, y: float, text: str, *, color: str = INK, anchor: str = "start", size: int = 12) -> str:
    more = "" if anchor == "start" else f' text-anchor="{anchor}"'
    more += "" if size == 12 else f' font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}"{more}>{escape(text)}</text>'


def _wrapped(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > room and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
