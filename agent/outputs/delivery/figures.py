"""What is known of each way that alerts are sent by. In: attempts and their answers. Out: counts, and lines of log.

A receiver that is down is logged when it goes, now and then while it is gone, and when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.outputs.delivery.answers import Answer

LOG_EVERY_SECONDS = 600.0

log = logging.getLogger("pdwatch")


@dataclass(slots=True)
class ReceiverFigures:
    """One receiver. `last_success`: unix seconds; `failures`: word -> attempts that failed so."""

    name: str
    attempts: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    queued: int = 0
    dropped: int = 0
    last_success: float | None = None
    failing_since: float | None = None
    logged_at: float | None = None

    def note(self, answer: Answer, now: float) -> None:
        """Counts one attempt; logs what changed."""
        self.attempts += 1
        if answer.kind == "accepted":
            if self.failing_since is not None:
                log.info("%s takes alerts again, after %.0f s", self.name, now - self.failing_since)
            self.last_success, self.failing_since, self.logged_at = now, None, None
            return
        self.failures[answer.word] = self.failures.get(answer.word, 0) + 1
        if self.failing_since is None:
            self.failing_since = now
        if self.logged_at is None or abs(now - self.logged_at) >= LOG_EVERY_SECONDS or answer.kind == "refused":
            self.logged_at = now
            later = "it will be tried again" if answer.kind == "retry" else "it is not tried again as it is"
            log.error("an alert did not reach %s: %s; %s", self.name, answer.text or answer.word, later)

    def drop(self, why: str) -> None:
        """Counts one alert that was given up."""
        self.dropped += 1
        log.error("an alert for %s was given up: %s", self.name, why)


@dataclass(slots=True)
class DeliveryFigures:
    """All receivers. `holds_lease` and `muted` are asked: whether this pdwatch is the one that posts where only one may
    (only where `leased`: some receiver is such), and how many alerts a maintenance window keeps back now.
    """

    receivers: list[ReceiverFigures] = field(default_factory=list)
    leased: bool = False
    muted: Callable[[], int] = lambda: 0
    holds_lease: Callable[[], bool] = lambda: True

    def of(self, name: str) -> ReceiverFigures:
        """The figures of a new receiver; a second one of the same name gets a number."""
        taken = {figures.name for figures in self.receivers}
        free, number = name, 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        self.receivers.append(ReceiverFigures(free))
        return self.receivers[-1]
