"""The one page of a bundle. In: an alert, the state when it fired, the recent course. Out: Markdown with small charts.

The charts are rows of block characters: they show wherever text does, on a phone at night as in a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from agent.outputs.delivery.times import rfc3339
from agent.outputs.evidence.course import Points
from agent.state import State
from agent.verdicts.alert import Alert

CHART_WIDTH = 60
MOST_ROWS = 40
_BLOCKS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def report(alerts: Sequence[Alert], state: State, series: Mapping[str, Points], files: Mapping[str, str]) -> str:
    """`alerts`: the one that fired first, then those that fired with it; `files`: name -> what it holds."""
    parts = [f"# {_plain(alerts[0].annotations.get('summary', alerts[0].name))}", f"Fired at {rfc3339(state.at)}."]
    for alert in alerts:
        parts += list(_of_alert(alert))
    parts += [
        "## The last hour at most",
        _charts(series),
        "## Objectives",
        _table(
            ("objective", "scope", "verdict", "status", "value", "target", "requests"),
            (
                (v.objective, v.scope, v.verdict, v.status, _number(v.value), _number(v.target), str(v.count))
                for v in state.verdicts
            ),
        ),
        "## Problems",
        _table(
            ("severity", "code", "where", "text"),
            ((p.severity, p.code, p.target or p.pool or "system", p.text) for p in state.problems),
        ),
        "## Memory of the servers' processes",
        _table(
            ("target", "process", "resident, GiB", "trend", "growth, MiB/h", "hours to limit"),
            (
                (
                    m.target,
                    f"{m.title} ({m.pid})",
                    _number(None if m.rss_bytes is None else m.rss_bytes / (1 << 30)),
                    m.trend,
                    _number(None if m.slope_bytes_per_hour.value is None else m.slope_bytes_per_hour.value / (1 << 20)),
                    _number(m.hours_to_limit.value),
                )
                for m in sorted(state.memory, key=lambda m: -(m.rss_bytes or 0))
            ),
        ),
        "## Files",
        _table(("file", "holds"), files.items()),
        "Play the recording: `pdwatch replay recording.jsonl.gz --events`",
    ]
    return "\n\n".join(parts) + "\n"


def _of_alert(alert: Alert) -> Iterable[str]:
    yield f"## {alert.name}"
    for title, name in (("", "description"), ("**Cause:** ", "cause"), ("**Runbook:** ", "runbook_url")):
        if alert.annotations.get(name):
            yield title + _plain(alert.annotations[name])
    yield _table(("label", "value"), sorted(alert.labels.items()))


def chart(points: Sequence[tuple[float, float | None]], width: int = CHART_WIDTH) -> str:
    """A row of blocks from the smallest to the largest value; a dot where nothing is known."""
    values = [value if value is not None and math.isfinite(value) else None for _, value in points]
    values = _thinned(values, width)
    known = [value for value in values if value is not None]
    if not known:
        return _UNKNOWN * len(values)
    low, span = min(known), max(known) - min(known)
    top = len(_BLOCKS) - 1
    return "".join(
        _UNKNOWN if value is None else _BLOCKS[round(top * (value - low) / span) if span else 0] for value in values
    )


def _thinned(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` of them: each stands for a stretch and is its largest."""
    if len(values) <= width:
        return list(values)
    stretches = [values[i * len(values) // width : (i + 1) * len(values) // width] for i in range(width)]
    return [max((v for v in stretch if v is not None), default=None) for stretch in stretches]


def _charts(series: Mapping[str, Points]) -> str:
    lines = []
    for name, points in series.items():
        known = [value for _, value in points if value is not None]
        if not known:
            continue
        words = f"{_number(min(known))} .. {_number(max(known))}, now {_number(points[-1][1])}"
        lines.append(f"{name[:44]:44}  {chart(list(points)):{CHART_WIDTH}}  {words}")
    return "```\n" + "\n".join(lines or ["nothing is known"]) + "\n```"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(_cell(cell) for cell in row) for row in rows]
    if not lines:
        return "None."
    more = len(lines) - MOST_ROWS
    lines = lines[:MOST_ROWS] + ([f"and {more} more" + " | " * (len(head) - 1)] if more > 0 else [])
    return "\n".join(f"| {line} |" for line in [" | ".join(head), " | ".join("---" for _ in head), *lines])


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """On one line, and without what Markdown readers would take for HTML."""
    return " ".join(text.split()).replace("<", "&lt;")


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
