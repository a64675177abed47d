"""What was seen when something fired, kept for who looks at it in the morning. In: observations, states, alerts.
Out: bundles, and alerts that say where theirs is.

    evidence = Evidence(config, Path(state_dir))
    evidence.observe(observation)            # every observation
    evidence.note(state)                     # every 15 seconds or more often
    await evidence.follow(alerts, state)     # after every evaluation; writes on a thread
    evidence.annotated(alerts)               # what is sent

What fires within a minute shares one bundle: it is one night's one story, and disks are finite.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.config import Config, masked
from agent.model import Observation
from agent.outputs.evidence.course import Course, Points
from agent.outputs.evidence.report import report
from agent.outputs.evidence.ring import RecentObservations
from agent.outputs.evidence.shelf import ALERTS_FILE, FILES, Shelf, alert_key, alerts_json, bundle_name
from agent.outputs.state_json import state_dict, state_text
from agent.state import State
from agent.verdicts.alert import Alert

SHARED_SECONDS = 60.0
BEFORE_SECONDS = 600.0
"""How long before an alert's begin "before" is: past a window of 5 min and a hold."""


class Evidence:
    """`url_base`: where this pdwatch's pages can be opened from elsewhere, or "" to name the folder instead."""

    def __init__(
        self, config: Config, state_dir: Path, *, url_base: str = "", ring: RecentObservations | None = None
    ) -> None:
        self.shelf = Shelf(state_dir / "evidence")
        self.written = 0
        self.config = config
        self._url_base = url_base.rstrip("/")
        self._ring = RecentObservations() if ring is None else ring
        self._course = Course()
        self._bundle_of = self.shelf.alerts()
        self._newest: tuple[float, str, tuple[Alert, ...]] | None = None

    def observe(self, observation: Observation) -> None:
        """Keeps an observation for some minutes."""
        self._ring.add(observation)

    def note(self, state: State) -> None:
        """Takes a state for the charts, and for "before"."""
        self._course.note(state)

    def annotated(self, alerts: Sequence[Alert]) -> tuple[Alert, ...]:
        """The same alerts, each with where its bundle is."""
        return tuple(
            alert
            if (name := self._bundle_of.get(alert_key(alert))) is None
            else replace(alert, annotations={**alert.annotations, "evidence": self._place(name)})
            for alert in alerts
        )

    async def follow(self, alerts: Sequence[Alert], state: State) -> None:
        """Writes a bundle when something new fires. Raises OSError; the alerts are then told without one."""
        known = {alert_key(alert) for alert in alerts}
        new = [alert for alert in alerts if alert.ends_at is None and alert_key(alert) not in self._bundle_of]
        if not new:
            self._bundle_of = {key: name for key, name in self._bundle_of.items() if key in known}
            return
        new.sort(key=lambda alert: alert.severity != "critical")
        newest = self._newest
        if newest is not None and 0 <= state.at - newest[0] < SHARED_SECONDS:
            at, name, earlier = newest
            self._newest = (at, name, (*earlier, *new))
            self._bundle_of |= {alert_key(alert): name for alert in new}
            await asyncio.to_thread(self.shelf.write_alerts, name, self._newest[2])
            return
        name = bundle_name(new[0], state.at)
        # Named before it is written: the page must not wait for a disk, and a failed disk not be tried every second.
        self._bundle_of |= {alert_key(alert): name for alert in new}
        self._newest = (state.at, name, tuple(new))
        try:
            before = self._course.before(new[0].starts_at - BEFORE_SECONDS)
            kept = (self._ring.recording(), self._course.charted(), before)
            await asyncio.to_thread(self._write, name, tuple(new), state, *kept)
        except OSError:
            self._bundle_of |= {alert_key(alert): "" for alert in new}
            self._newest = None
            raise
        self.written += 1

    def _write(
        self,
        name: str,
        alerts: tuple[Alert, ...],
        state: State,
        recording: Sequence[bytes],
        series: Mapping[str, Points],
        before: str | None,
    ) -> None:
        bodies = {
            "state.json": state_text(state),
            "state-before.json": before or "null",
            "memory.json": json.dumps(state_dict(state)["memory"], indent=1),
            "configuration.json": json.dumps(masked(self.config), indent=2),
            "report.md": report(alerts, state, series, FILES),
        }
        parts: dict[str, Sequence[bytes]] = {file: [text.encode("utf-8", "replace")] for file, text in bodies.items()}
        parts |= {"recording.jsonl.gz": recording, ALERTS_FILE: [alerts_json(alerts)]}
        self.shelf.put(name, parts)

    def _place(self, name: str) -> str:
        if not name:
            return "could not be written; see pdwatch's log"
        if self._url_base:
            return f"{self._url_base}/evidence/{name}/report.md"
        return str(self.shelf.directory / name)
