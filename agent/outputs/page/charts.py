"""Pictures of numbers, as inline SVG. In: numbers in base units. Out: markup that needs no script.

Places are percentages of the picture's width, so that every picture fills whatever room it is given and its texts keep
their size. Every picture has a title and a description that say in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.outputs.page.html import Child, Markup, el, join, number
from agent.outputs.page.view import Point
from agent.verdicts.wording import duration

LEAST_PAST_SECONDS = 1800.0
PLOT = 1000
"""Units across a stretched plot."""


def picture(title: str, description: str, height: int, *children: Child, class_: str = "") -> Markup:
    """One picture, as wide as its place and `height` pixels high."""
    named = (el("title", title), el("desc", description))
    return el("svg", *named, *children, role="img", width="100%", height=height, class_=f"pic {class_}".strip())


def percent(share: float) -> str:
    """A place across the picture, held inside it."""
    return f"{number(100 * min(1.0, max(0.0, share if math.isfinite(share) else 1.0)))}%"


def bar(
    title: str, description: str, share: float | None, *, begin: float = 0.0, class_: str = "", height: int = 10
) -> Markup:
    """A bar from `begin` on, `share` of the whole long; an empty track where the share is not known."""
    track = el("rect", width="100%", height=height, rx=2, class_="track")
    filled = None
    if share is not None and share > 0:
        seen = max(0.004, min(1.0, share))
        filled = el(
            "rect", x=percent(min(begin, 0.996)), width=percent(seen), height=height, rx=2, class_=f"bar {class_}"
        )
    return picture(title, description, height, track, filled)


@dataclass(frozen=True, slots=True)
class Span:
    """A value with what bounds it. `high` None: nothing does from above. `likely`: a narrower interval."""

    value: float | None
    low: float | None
    high: float | None
    likely: tuple[float, float] | None = None


def bounded(title: str, description: str, span: Span, target: float | None, most: float) -> Markup:
    """Value, bounds and target on a scale from 0 to `most`: a pale band holds for sure, a dark one is likely."""
    parts: list[Markup] = [el("rect", y=7, width="100%", height=6, rx=3, class_="track")]
    if span.low is not None:
        low = span.low / most
        high = 1.0 if span.high is None else span.high / most
        parts.append(_rect(low, high, 4, 12, "band"))
        if span.high is None:
            parts.append(el("path", d="M-8 4l6 6-6 6", transform="translate(0)", class_="open"))
            parts[-1] = el("svg", parts[-1], x="100%", overflow="visible", width=1, height=20)
    if span.likely is not None:
        parts.append(_rect(span.likely[0] / most, span.likely[1] / most, 4, 12, "likely"))
    if target is not None:
        at = percent(target / most)
        parts.append(el("line", x1=at, x2=at, y1=0, y2=20, class_="target"))
    if span.value is not None:
        parts.append(el("circle", cx=percent(span.value / most), cy=10, r=4.5, class_="dot"))
    return picture(title, description, 20, *parts, class_="gauge")


def _rect(low: float, high: float, y: float, height: float, class_: str) -> Markup:
    low, high = max(0.0, min(1.0, low)), max(0.0, min(1.0, high))
    return el("rect", x=percent(low), y=y, width=percent(max(0.004, high - low)), height=height, rx=2, class_=class_)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a plot shows: from `begin` to `end` across, from `low` to `high` upwards."""

    begin: float
    end: float
    low: float
    high: float

    def x(self, at: float) -> float:
        """Share of the width."""
        return (at - self.begin) / (self.end - self.begin)

    def y(self, value: float) -> float:
        """Share of the height, from above."""
        return 1.0 - (value - self.low) / (self.high - self.low)

    def place(self, at: float, value: float) -> str:
        """`x,y` in the units of a stretched plot, held inside it upwards and downwards."""
        return f"{number(PLOT * self.x(at))},{number(PLOT * max(-0.05, min(1.05, self.y(value))))}"


def plot(top: float, height: float, *children: Child) -> Markup:
    """The part of a picture that is stretched to its width: lines stay as thin as they are."""
    size = f"0 0 {PLOT} {PLOT}"
    return el("svg", *children, x=0, y=top, width="100%", height=height, viewBox=size, preserveAspectRatio="none")


def runs(points: Iterable[Point], gap_seconds: float) -> list[list[tuple[float, float]]]:
    """Stretches of known values; a line is not drawn across what is not known."""
    found: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point.value is None or not math.isfinite(point.value):
            found.append([])
        elif found[-1] and point.at - found[-1][-1][0] > gap_seconds:
            found.append([(point.at, point.value)])
        else:
            found[-1].append((point.at, point.value))
    return [run for run in found if run]


def line(frame: Frame, points: Sequence[Point], gap_seconds: float, class_: str = "line") -> Markup:
    """A series; a point alone is a short stroke."""
    paths = []
    for run in runs(points, gap_seconds):
        first = frame.place(*run[0])
        rest = [frame.place(*each) for each in run[1:]] or [
            f"{number(PLOT * frame.x(run[0][0]) + 2)},{first.partition(',')[2]}"
        ]
        paths.append(f"M{first}L{' '.join(rest)}")
    return el("path", d="".join(paths), class_=class_) if paths else join()


def band(frame: Frame, points: Sequence[Point], gap_seconds: float) -> Markup:
    """What surely holds a series: between the points' bounds, where they have any."""
    paths = []
    stretch: list[tuple[float, float, float]] = []
    for point in [*points, None]:
        known = point is not None and point.low is not None and point.high is not None and math.isfinite(point.high)
        if stretch and (not known or point is None or point.at - stretch[-1][0] > gap_seconds):
            if len(stretch) > 1:
                above = [frame.place(at, high) for at, _, high in stretch]
                below = [frame.place(at, low) for at, low, _ in reversed(stretch)]
                paths.append(f"M{'L'.join(above)}L{'L'.join(below)}Z")
            stretch = []
        if known and point is not None and point.low is not None and point.high is not None:
            stretch.append((point.at, point.low, point.high))
    return el("path", d="".join(paths), class_="area") if paths else join()


def label(x: float, y: float, words: str, class_: str = "") -> Markup:
    """A text in a picture, anchored so that it stays inside."""
    anchor = "start" if x < 0.12 else "end" if x > 0.88 else "middle"
    return el("text", words, x=percent(x), y=y, text_anchor=anchor, class_=class_ or None)


def history(
    title: str,
    description: str,
    points: Sequence[Point],
    now: float,
    *,
    target: tuple[float, str] | None = None,
    gap_seconds: float = 1800.0,
) -> Markup:
    """The past of one number, as far back as it is known: its line, its bounds, and the target with its words."""
    seen = [point for point in points if point.value is not None and math.isfinite(point.value)]
    began = min((point.at for point in seen), default=now)
    begin = min(began, now - LEAST_PAST_SECONDS)
    most = max([*(point.value or 0.0 for point in seen), target[0] if target else 0.0], default=0.0) * 1.12 or 1.0
    frame = Frame(begin, now, 0.0, most)
    inside = [band(frame, points, gap_seconds), line(frame, points, gap_seconds)]
    words: list[Markup] = []
    if target is not None:
        at = frame.y(target[0])
        inside.append(el("line", x1=0, x2=PLOT, y1=PLOT * at, y2=PLOT * at, class_="target"))
        words.append(el("text", target[1], x=0, y=14 + 50 * at - 4, class_="on"))
    axis = el("line", x1=0, x2="100%", y1=64.5, y2=64.5, class_="axis")
    words += [axis, label(0.0, 79, f"{duration(now - begin)} ago"), label(1.0, 79, "now")]
    named = f"{title} over the last {duration(now - begin)}"
    return picture(named, description, 82, plot(14, 50, *inside), *words, class_="history")
