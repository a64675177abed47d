"""Alerts that wait for one receiver. In: alerts that began or ended. Out: the oldest; of one incident only the newest.

Bounded: what is over is dropped oldest first, the ended before the firing, since a page matters more than its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.verdicts.alert import Alert

MOST_WAITING = 1000


@dataclass(frozen=True, slots=True)
class Waiting:
    """`since`: steady seconds at which the incident's first unsent state came in."""

    alert: Alert
    since: float


class Queue:
    """In the order of coming in, by identity."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, identity: str) -> bool:
        return identity in self._waiting

    def put(self, alert: Alert, steady: float) -> Alert | None:
        """Takes an alert; its newer state takes the place of an older one. Returns what had to be dropped for it."""
        older = self._waiting.get(alert.identity)
        self._waiting[alert.identity] = Waiting(alert, steady if older is None else older.since)
        if len(self._waiting) <= self._most:
            return None
        ended = (identity for identity, waiting in self._waiting.items() if waiting.alert.ends_at is not None)
        return self._waiting.pop(next(ended, next(iter(self._waiting)))).alert

    def first(self) -> Waiting | None:
        """The one that waits longest; it stays until it is `done`."""
        return next(iter(self._waiting.values()), None)

    def done(self, alert: Alert) -> None:
        """Takes it out, unless a newer state has taken its place meanwhile."""
        waiting = self._waiting.get(alert.identity)
        if waiting is not None and waiting.alert is alert:
            del self._waiting[alert.identity]

    def forget(self, identity: str) -> None:
        """Takes out what waits of an incident, if anything."""
        self._waiting.pop(identity, None)

    def clear(self) -> None:
        self._waiting.clear()
