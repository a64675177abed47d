"""Memory of the servers' processes. In: a view. Out: what grows with its forecast, the rest as a table.

The line goes through the last reading with the fitted slope; the forecast opens as far as the slope's 95 % interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.outputs import numbers
from agent.outputs.page.charts import PLOT, Frame, label, line, picture, plot
from agent.outputs.page.html import Markup, el, join, link, table
from agent.outputs.page.view import View
from agent.outputs.page.words import Tone, badge, fact, hours, hours_between, section, signed_size
from agent.state import MemoryState
from agent.verdicts.wording import duration, plural

MOST_CHARTS = 12
MOST_ROWS = 300
LEAST_AHEAD_HOURS, MOST_AHEAD_HOURS = 6.0, 14 * 24.0
_TOP, _HEIGHT = 16, 110
_TRENDS: dict[str, tuple[str, Tone]] = {
    "leaking": ("leaking", "bad"),
    "growing": ("growing", "warn"),
    "steady": ("steady", "good"),
    "warming": ("warming up", "none"),
    "unknown": ("not known", "unknown"),
}


def memory(view: View) -> Markup:
    """The section."""
    processes = view.state.memory
    if not processes:
        lead = "Not known: no process readings have come. They come from a pdwatch on the servers' own hosts."
        return section("memory", "Memory", lead=lead)
    moving = sorted((each for each in processes if _moves(each)), key=_gravity)
    shown = moving[:MOST_CHARTS]
    charts = el("div", *(_chart(view, each) for each in shown), class_="cards") if shown else None
    rest = [each for each in processes if each not in shown]
    counts = {trend: sum(each.trend == trend for each in processes) for trend in _TRENDS}
    words = ", ".join(f"{count} {_TRENDS[trend][0]}" for trend, count in counts.items() if count)
    body = _table(rest)
    more = (
        el(
            "details",
            el(
                "summary",
                f"{plural(len(rest), 'process').replace('processs', 'processes')} without a leak or growth"
                if not moving[MOST_CHARTS:]
                else f"{len(rest)} more processes",
            ),
            body,
            id="memory-rest",
        )
        if rest
        else None
    )
    return section("memory", "Memory", charts, more, lead=f"{len(processes)} processes: {words}.")


def _moves(process: MemoryState) -> bool:
    return process.trend in ("leaking", "growing") or process.severity is not None


def _gravity(process: MemoryState) -> tuple[int, float]:
    left = process.hours_to_limit.value
    return {"critical": 0, "warning": 1}.get(process.severity or "", 2), math.inf if left is None else left


def used_bytes(process: MemoryState) -> int | None:
    """What the trend is about."""
    if process.measure == "rss" or process.anon_bytes is None:
        return process.rss_bytes
    return process.anon_bytes + (process.swap_bytes or 0)


def _name(process: MemoryState) -> str:
    return f"{process.title} of {process.target}"


def _chart(view: View, process: MemoryState) -> Markup:
    word, tone = _TRENDS[process.trend]
    if process.severity is not None:
        tone = "bad" if process.severity == "critical" else "warn"
    slope, left = process.slope_bytes_per_hour, process.hours_to_limit
    between = f"{signed_size(slope.low)} to {signed_size(slope.high)}" if slope.low is not None else None
    facts = [
        fact("grows by", f"{signed_size(slope.value)}/h", hint=between),
        fact("limit", numbers.size(process.limit_bytes)),
        fact("reached in", hours(left.value), hint=hours_between(left), tone=tone if left.value is not None else None),
    ]
    top = el("p", badge(word, tone), el("span", f"pid {process.pid}", class_="quiet"), class_="top")
    value = el(
        "p",
        el("span", numbers.size(used_bytes(process)), class_="value"),
        el("span", (process.measure or "memory").replace("_", " "), class_="promise"),
        class_="line",
    )
    reason = el("p", process.reason, class_="how") if process.reason else None
    return el(
        "article",
        top,
        el("h3", _name(process)),
        value,
        _forecast(view, process),
        el("dl", *facts),
        reason,
        class_=f"card {tone}",
    )


def _forecast(view: View, process: MemoryState) -> Markup | None:
    used, slope, limit = used_bytes(process), process.slope_bytes_per_hour, process.limit_bytes
    if used is None:
        return None
    points = view.line(f"memory/{process.target}/{process.title}")
    known = [(point.at, point.value) for point in points if point.value is not None]
    now = view.now
    began = min([at for at, _ in known], default=now)
    ahead = _ahead_hours(process, (now - began) / 3600.0)
    end = now + 3600.0 * ahead
    rates = [rate for rate in (slope.value, slope.low, slope.high) if rate is not None]
    far = [used + rate * ahead for rate in rates]
    most = max([used, *far, *(value for _, value in known)])
    within = limit is not None and limit <= 1.3 * most
    if within and limit is not None:
        most = max(limit, min(most, 1.15 * limit))
    least = min([used, *(value for _, value in known)])
    low = max(0.0, least - 0.1 * (most - least))
    frame = Frame(min(began, now - 0.15 * (end - now)), end, low, most + 0.06 * (most - low or 1.0))
    inside: list[Markup] = []
    if slope.low is not None and slope.high is not None:
        cone = [(now, used), (end, used + slope.high * ahead), (end, used + slope.low * ahead)]
        inside.append(
            el("path", d=f"M{'L'.join(_clipped(frame, now, used, at, to) for at, to in cone)}Z", class_="area")
        )
    inside.append(line(frame, points, 3600.0))
    if slope.value is not None:
        if known:
            behind = max(began, process.started or began)
            inside.append(_stroke(frame, behind, used - slope.value * (now - behind) / 3600.0, now, used, "fit"))
        inside.append(_stroke(frame, now, used, end, used + slope.value * ahead, "forecast"))
    over: list[Markup] = []
    if within and limit is not None:
        at = frame.y(limit)
        inside.append(el("line", x1=0, x2=PLOT, y1=PLOT * at, y2=PLOT * at, class_="target"))
        over.append(el("text", f"limit {numbers.size(limit)}", x=0, y=_TOP + _HEIGHT * at - 4, class_="on"))
    here = PLOT * frame.x(now)
    inside.append(el("line", x1=here, x2=here, y1=0, y2=PLOT, class_="now"))
    parts = [
        plot(_TOP, _HEIGHT, *inside),
        *over,
        el("line", x1=0, x2="100%", y1=_TOP + _HEIGHT, y2=_TOP + _HEIGHT, class_="axis"),
    ]
    base = _TOP + _HEIGHT + 15
    if frame.x(now) > 0.3:
        parts.append(label(0.0, base, f"{duration(now - frame.begin)} ago"))
    parts += [label(min(0.87, frame.x(now)), base, "now"), label(1.0, base, f"in {duration(end - now)}")]
    title = f"Memory of {_name(process)} and its forecast"
    return picture(title, _said(process, used), _TOP + _HEIGHT + 18, *parts, class_="history")


def _said(process: MemoryState, used: float) -> str:
    slope, left = process.slope_bytes_per_hour, process.hours_to_limit
    said = f"{numbers.size(used)} now, changing by {signed_size(slope.value)} per hour"
    if left.value is None:
        return f"{said}; when the limit is reached is not known."
    between = hours_between(left)
    around = f" ({between})" if between else ""
    return f"{said}; the limit of {numbers.size(process.limit_bytes)} is reached in {hours(left.value)}{around}."


def _ahead_hours(process: MemoryState, seen_hours: float) -> float:
    left = process.hours_to_limit.value
    wanted = 1.25 * left if left is not None and math.isfinite(left) else max(seen_hours, 24.0)
    return min(MOST_AHEAD_HOURS, max(LEAST_AHEAD_HOURS, wanted))


def _clipped(frame: Frame, from_at: float, start: float, at: float, value: float) -> str:
    """The end of a stroke, cut where it leaves the plot upwards, so that its angle stays right."""
    top = frame.high + 0.02 * (frame.high - frame.low)
    if value > top > start and at > from_at:
        at, value = from_at + (at - from_at) * (top - start) / (value - start), top
    return frame.place(at, value)


def _stroke(frame: Frame, from_at: float, start: float, at: float, value: float, class_: str) -> Markup:
    return el("path", d=f"M{frame.place(from_at, start)}L{_clipped(frame, from_at, start, at, value)}", class_=class_)


def _table(processes: Sequence[MemoryState]) -> Markup:
    rows = [
        (
            each.title,
            each.target,
            badge(*_TRENDS[each.trend]),
            str(each.pid),
            numbers.size(each.rss_bytes),
            numbers.size(each.anon_bytes),
            f"{signed_size(each.slope_bytes_per_hour.value)}/h"
            if each.slope_bytes_per_hour.value is not None
            else numbers.UNKNOWN,
            numbers.size(each.limit_bytes),
            hours(each.hours_to_limit.value),
        )
        for each in processes[:MOST_ROWS]
    ]
    head = ("process", "target", "trend", "pid", "RSS", "anonymous", "slope", "limit", "limit in")
    left = len(processes) - len(rows)
    more = el("p", f"and {left} more: see ", link("api/v1/state", "the state"), class_="quiet") if left > 0 else None
    return join(table("Processes", head, rows, text_columns=3), more)
