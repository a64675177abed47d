"""Every query of every panel asked of a Prometheus. In: a server, a stretch of time. Out: queries without an answer."""

from collections.abc import Mapping

from agent.export.dashboards.answers import Key
from tests.export.dashboards.made import queries
from tests.export.dashboards.played import Server
from tests.export.dashboards.variables import VALUES, filled

AHEAD_SECONDS = 3600.0
"""Beyond the end, where the forecast of what was last seen lies."""
ASK_SECONDS = 30.0


def without_answer(server: Server, start: float, end: float, values: Mapping[str, str] = VALUES) -> set[Key]:
    """Queries that return no series, or only NaN, at every moment from `start` to an hour after `end`."""
    return {
        asked.key
        for asked in queries()
        if all(
            value == "NaN"
            for series in server.matrix(filled(asked.expr, values), start, end + AHEAD_SECONDS, ASK_SECONDS)
            for _, value in series["values"]
        )
    }
