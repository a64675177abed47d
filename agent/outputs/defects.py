"""Defects of pdwatch itself that were caught. In: an exception and where it rose. Out: counts, a problem, a log line.

After start nothing may end the process, and nothing may be swallowed either: what is caught is counted, stands as a
problem for a while, and is logged with its traceback, though not a thousand times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from agent.state import ProblemState

LOG_EVERY_SECONDS = 60.0
STANDS_SECONDS = 900.0

log = logging.getLogger("pdwatch")


class Defects:
    """Counts by place. `wall`: gives unix seconds."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._counts: dict[str, int] = {}
        self._last: dict[str, tuple[float, str]] = {}
        self._logged: dict[str, float] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Where -> how often, since start."""
        return self._counts

    def note(self, where: str, error: Exception) -> None:
        """Counts one, and logs it unless the same place logged one within the last minute."""
        now = self._wall()
        self._counts[where] = self._counts.get(where, 0) + 1
        self._last[where] = (now, f"{type(error).__name__}: {error}"[:200])
        logged = self._logged.get(where)
        if logged is None or abs(now - logged) >= LOG_EVERY_SECONDS:
            self._logged[where] = now
            log.error("defect in %s (%d so far)", where, self._counts[where], exc_info=error)

    def problems(self) -> list[ProblemState]:
        """What was caught lately, one problem per place."""
        now = self._wall()
        return [
            ProblemState(
                code="agent_error",
                target=None,
                since=t,
                text=f"pdwatch itself failed in {where} {self._counts[where]} times, last with {text}; see its log",
                severity="warning",
                evidence={"where": where, "count": float(self._counts[where])},
            )
            for where, (t, text) in self._last.items()
            if now - t < STANDS_SECONDS
        ]
