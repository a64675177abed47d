"""The history over HTTP, read-only. In: requests for `/api/v1/history`. Out: series as JSON.

GET /api/v1/history?indicator=ttft&scope=system&from=UNIX_SECONDS&to=UNIX_SECONDS&points=300
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from agent.outputs.history.history import KEEP_SECONDS, History
from agent.outputs.history.thinning import Point
from agent.outputs.live import Live
from agent.watch import DEFAULT_WINDOW_SECONDS

PARAMETERS = ("indicator", "scope", "from", "to", "points")
DEFAULT_POINTS = 300
MOST_POINTS = 1500
MOST_SCOPES = 200
"""Series in one answer; the rest is to be asked for by scope."""
MOST_NAMED = 30


def add_history_route(app: web.Application, live: Live) -> None:
    """Adds `/api/v1/history`; the history is looked up at each request, since it may begin after the server."""

    async def history(request: web.Request) -> web.Response:
        kept = live.history
        if kept is None:
            return _refused(404, "no history is kept")
        try:
            asked = _Asked(request.query, live.now())
        except ValueError as error:
            return _refused(400, str(error))
        return await asyncio.to_thread(_answer, kept, asked)

    app.router.add_get("/api/v1/history", history)


class _Asked:
    """What a request asks for. Raises ValueError with a sentence."""

    def __init__(self, query: Mapping[str, str], now: float) -> None:
        unknown = sorted(set(query) - set(PARAMETERS))
        if unknown:
            raise ValueError(f"unknown parameter {unknown[0]!r}; known are {', '.join(PARAMETERS)}")
        self.indicator = query.get("indicator")
        self.scope = query.get("scope")
        self.end = _number(query, "to", now)
        self.begin = _number(query, "from", self.end - KEEP_SECONDS)
        if self.begin >= self.end:
            raise ValueError("from must be before to")
        self.points = int(_number(query, "points", DEFAULT_POINTS))
        if not 2 <= self.points <= MOST_POINTS:
            raise ValueError(f"points: {query['points']!r} is not between 2 and {MOST_POINTS}")


def _number(query: Mapping[str, str], name: str, default: float) -> float:
    if name not in query:
        return default
    try:
        number = float(query[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        unit = "a whole number" if name == "points" else "a time in unix seconds"
        raise ValueError(f"{name}: {query[name]!r} is not {unit}")
    return number


def _answer(kept: History, asked: _Asked) -> web.Response:
    names = [name.partition("/")[::2] for name in kept.names()]
    indicators = sorted({indicator for indicator, _ in names})
    if asked.indicator is None:
        return _refused(400, f"indicator is missing; {_known(indicators)}")
    scopes = [scope for indicator, scope in names if indicator == asked.indicator]
    if not scopes:
        return _refused(404, f"no history of {asked.indicator!r}; {_known(indicators)}")

    def points_of(scope: str) -> list[dict[str, float | None]]:
        found = kept.series(f"{asked.indicator}/{scope}", asked.begin, asked.end, asked.points)
        return [_point(point) for point in found]

    head: dict[str, Any] = {"indicator": asked.indicator}
    if asked.scope is None:
        shown = scopes[:MOST_SCOPES]
        series = [{"scope": scope, "points": points_of(scope)} for scope in shown]
        left_out = len(scopes) - len(shown)
        return web.json_response(
            {**head, "window_s": DEFAULT_WINDOW_SECONDS, "series": series, "series_left_out": left_out}
        )
    if asked.scope not in scopes:
        return _refused(404, f"no history of {asked.indicator} for the scope {asked.scope!r}; {_known(scopes)}")
    return web.json_response(
        {**head, "scope": asked.scope, "window_s": DEFAULT_WINDOW_SECONDS, "points": points_of(asked.scope)}
    )


def _point(point: Point) -> dict[str, float | None]:
    return {"t": point.at, "value": point.value, "low": point.low, "high": point.high, "count": point.count}


def _known(names: Iterable[str]) -> str:
    listed = list(names)
    if not listed:
        return "nothing is known yet"
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return "known are " + ", ".join(listed[:MOST_NAMED]) + more


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
