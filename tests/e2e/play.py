"""One play. In: a stage, how long the late Alertmanager is down, whether to wait for the slowest ends. Out: moments.

    one, killed   drafts are hardly accepted any more: mean TPOT breaks its promise; healthy again later
    two           an engine is frozen from the start; thawed only in a whole play

While one's incident lasts, the pdwatch of killed is ended by SIGKILL and begun again with the same state_dir. The late
Alertmanager is down when one's incident is told, and again when it ends.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

from tests.e2e.programs import until
from tests.e2e.receiver import Calls
from tests.e2e.stage import DIRECT, LATE, PDWATCH, VLLM, WAYS, Stage

SLOW, FROZEN = "mtp-collapse", "frozen-engine"
PAGE_SECONDS = 240.0
"""These are deadlines of a busy machine; what is waited for comes in a fraction of them."""
RESOLVE_SECONDS = 240.0
OWN_RESOLVE_SECONDS = 480.0
"""By the rules on pdwatch: a minute of looking back and two of keeping, after pdwatch's own end."""
FROZEN_RESOLVE_SECONDS = 600.0
"""A pdwatch that was begun less than six minutes ago takes no problem back."""
BACK_SECONDS = 90.0
"""The longest wait between two attempts is a minute."""


@dataclass
class Played:
    """What happened. `moments`: word -> unix seconds."""

    calls: Calls
    moments: dict[str, float] = field(default_factory=dict)
    two_kept_firing: bool = False
    """Whether every way still had two's alert when one's was over."""


def play(stage: Stage, *, down_seconds: float, whole: bool = False) -> Played:
    """Plays all of it. AssertionError where something that must come does not come."""
    calls, played = stage.calls, Played(stage.calls)
    moments = played.moments
    moments["frozen"] = stage.fleets["two"].begin(FROZEN)
    stage.wait_until_healthy()
    moments["slow"] = stage.fleets["one"].begin(SLOW)

    _told(calls, DIRECT, "one", "firing", PAGE_SECONDS)
    _come_back(stage, played, down_seconds, "firing")
    for way, deployment in ((DIRECT, "killed"), ("webhook", "killed"), (VLLM, "one"), (PDWATCH, "one")):
        _told(calls, way, deployment, "firing", PAGE_SECONDS)

    stage.watches["killed"].end(signal.SIGKILL)
    moments["killed"] = time.time()
    stage.watches["killed"].begin()
    stage.watches["killed"].wait()
    moments["begun again"] = time.time()

    for way in WAYS:
        _told(calls, way, "two", "firing", PAGE_SECONDS)

    stage.managers[LATE].end()
    moments["healthy"] = stage.fleets["one"].end(SLOW)
    _told(calls, DIRECT, "one", "resolved", RESOLVE_SECONDS)
    _come_back(stage, played, down_seconds, "resolved")
    for way, deployment in ((DIRECT, "killed"), ("webhook", "killed"), (VLLM, "one")):
        _told(calls, way, deployment, "resolved", RESOLVE_SECONDS)
    played.two_kept_firing = all(_has(stage, way, "two") for way in WAYS)
    if whole:
        moments["thawed"] = stage.fleets["two"].end(FROZEN)
        _told(calls, PDWATCH, "one", "resolved", OWN_RESOLVE_SECONDS)
        for way in WAYS:
            _told(calls, way, "two", "resolved", FROZEN_RESOLVE_SECONDS)
    return played


def _told(calls: Calls, way: str, deployment: str, status: str, seconds: float) -> None:
    until(lambda: status in calls.statuses(way, deployment), seconds, f"{status} of {deployment} by way of {way}")


def _come_back(stage: Stage, played: Played, down_seconds: float, status: str) -> None:
    """The late Alertmanager stays down for so long from here on, is begun, and hears of what happened meanwhile."""
    down_since = time.monotonic()
    until(lambda: time.monotonic() - down_since >= down_seconds, down_seconds + 1.0, "the Alertmanager is down")
    played.moments[f"back for {status}"] = time.time()  # before: it may hear of it as soon as it listens
    stage.managers[LATE].begin()
    stage.managers[LATE].wait()
    _told(stage.calls, LATE, "one", status, BACK_SECONDS)


def _has(stage: Stage, way: str, deployment: str) -> bool:
    return any(
        isinstance(labels := alert["labels"], dict) and labels.get("deployment") == deployment
        for alert in stage.active(way)
    )
