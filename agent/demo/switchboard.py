"""Which incidents run now. In: names to start and stop. Out: the fleet behaves so; what runs and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.demo.fleet import Fleet
from agent.demo.incidents import INCIDENTS, Incident, Undo, incident_named


@dataclass(frozen=True, slots=True)
class Running:
    """`ends`: when it will be over by itself, unix seconds; None: when it is stopped."""

    since: float
    ends: float | None
    undo: Undo


class Switchboard:
    """Starts and stops incidents by name, each at most once at a time.

    `options`: incident -> keyword arguments that its function is given here.
    """

    def __init__(self, fleet: Fleet, options: Mapping[str, Mapping[str, Any]]) -> None:
        self._fleet = fleet
        self._options = options
        self._running: dict[str, Running] = {}

    @property
    def running(self) -> Mapping[str, Running]:
        """Name -> what runs at the fleet's moment."""
        now = self._fleet.now
        self._running = {name: it for name, it in self._running.items() if it.ends is None or it.ends > now}
        return self._running

    def start(self, name: str) -> None:
        """Begins now; nothing where it runs already. Raises ConfigError for an unknown name."""
        incident = incident_named(name)
        if name in self.running:
            return
        if incident.sets_traffic:
            for other in [other for other in self.running if INCIDENTS[other].sets_traffic]:
                self.stop(other)
        now = self._fleet.now
        undo = incident.begin(self._fleet, now, **self._options.get(name, {}))
        self._running[name] = Running(now, self._ends(incident), undo)

    def stop(self, name: str) -> None:
        """Ends now; nothing where it does not run. Raises ConfigError for an unknown name."""
        incident_named(name)
        running = dict(self.running).pop(name, None)
        if running is not None:
            del self._running[name]
            running.undo(self._fleet.now)

    def _ends(self, incident: Incident) -> float | None:
        return None if incident.seconds is None else self._fleet.now + incident.seconds(self._fleet)
