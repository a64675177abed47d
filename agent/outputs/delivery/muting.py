"""Maintenance windows. In: an alert and the moment. Out: whether it is held back.

Held back is what began inside a window that is still open. What began before was told before, and goes on being told:
to fall silent about it would look like its end. The rule needs no memory, so that replicas and restarts agree.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.config import Mute
from agent.verdicts.alert import Alert

LOOK_EVERY_SECONDS = 300.0
DAY_SECONDS = 86400.0


def is_muted(alert: Alert, mutes: Iterable[Mute], now: float) -> bool:
    """Whether any window that matches the alert's labels has been open from its begin to `now`."""
    return any(
        mute.covers(now) and _matches(mute, alert) and _open_throughout(mute, alert.starts_at, now) for mute in mutes
    )


def _matches(mute: Mute, alert: Alert) -> bool:
    return all(alert.labels.get(name) == value for name, value in mute.labels)


def _open_throughout(mute: Mute, since: float, now: float) -> bool:
    if mute.hours is None:
        return mute.covers(since)
    # A daily window is shut at some time of every day.
    if now - since >= DAY_SECONDS:
        return False
    steps = int((now - since) // LOOK_EVERY_SECONDS)
    return all(mute.covers(since + step * LOOK_EVERY_SECONDS) for step in range(steps + 1))
