"""A stretch of time in which nothing is wrong. In: days. Out: what was sent, which should be nothing.

Two small servers on each side through nights and days; every day at ten in the morning they are all restarted one
after another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from agent.demo import Fleet, Topology, small, start_incident
from tests.incidents.library import NOON
from tests.incidents.play import Sent, play

DAY_SECONDS = 86400.0
INTERVAL_SECONDS = 60.0
"""Longer than elsewhere: a day of 15 s scrapes takes minutes to play."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What was sent in `days` days, the requests that were served, and how many restarts there were."""

    days: float
    sent: tuple[Sent, ...]
    requests: int
    restarts: int


def pairs(seed: int = 1) -> Topology:
    """`small()` with its engines on two servers, so that a rollout never leaves a pool empty."""
    fleet = small(seed)
    return replace(
        fleet,
        prefill=replace(fleet.prefill, targets=2, engines=1),
        decode=replace(fleet.decode, targets=2, engines=1),
    )


def quiet(days: float, seed: int = 1, interval_seconds: float = INTERVAL_SECONDS) -> Quiet:
    """Plays that many days, the last perhaps a part of one, from midnight, UTC."""
    start = NOON - DAY_SECONDS / 2
    fleet = Fleet(pairs(seed), start)
    for day in range(ceil(days)):
        start_incident(fleet, "rollout", at=start + day * DAY_SECONDS + 10 * 3600)
    sent = play(fleet, start + days * DAY_SECONDS, interval_seconds=interval_seconds)
    restarts = sum(server.lives - 1 for server in fleet.servers.values())
    return Quiet(days, tuple(sent), fleet.requests[-1].number, restarts)
