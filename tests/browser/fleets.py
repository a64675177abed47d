"""Simulated fleets under watch, as the page shows them. In: a topology and what happens to it. Out: a `Live`.

Nights are skipped over: before `busy_hours` the servers are up and nobody asks anything, so that memory has a past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent.config import Config, Scrape, config_from_names
from agent.demo import Fleet, Topology, observations, start_incident
from agent.outputs.history import History
from agent.outputs.live import Live
from agent.watch import Watch

NOON = 1_796_000_000.0 - 1_796_000_000.0 % 86400 + 12 * 3600
"""UTC: near the busiest hour."""


class Happening(NamedTuple):
    """An incident that begins some hours before the end, and its options."""

    name: str
    hours_before_end: float
    options: dict[str, Any]


class Clock:
    """Stands where the observations are."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def config_of(fleet: Fleet, deployment: str, interval_seconds: float) -> Config:
    """The pools of a fleet, 4 GPUs for each prefill target and 8 for decode."""
    config = config_from_names(fleet.targets)
    gpus = {"prefill": 4, "decode": 8}
    pools = tuple(replace(pool, gpus_per_target=gpus[pool.role]) for pool in config.pools)
    return replace(config, deployment=deployment, scrape=Scrape(interval_seconds), pools=pools)


def played(
    topology: Topology,
    happenings: Sequence[Happening] = (),
    *,
    busy_hours: float = 0.3,
    quiet_hours: float = 0.0,
    interval_seconds: float = 15.0,
    deployment: str = "glm-prod",
    end: float = NOON,
) -> Live:
    """A fleet watched until `end`."""
    busy_since = end - busy_hours * 3600
    since = busy_since - quiet_hours * 3600
    fleet = Fleet(topology, since, remember_seconds=600.0)
    for name, hours, options in happenings:
        start_incident(fleet, name, at=end - hours * 3600, **options)
    clock = Clock(since)
    live = Live(Watch(config_of(fleet, deployment, interval_seconds)), clock, clock)
    live.history = History(None)
    if quiet_hours:
        fleet.arrivals.rate_factor = 0.0
        fleet.expect_arrivals(since)
        _watch(live, fleet, clock, busy_since, 120.0)
        fleet.arrivals.rate_factor = 1.0
        fleet.expect_arrivals(busy_since)
    _watch(live, fleet, clock, end, interval_seconds)
    return live


def _watch(live: Live, fleet: Fleet, clock: Clock, until: float, interval_seconds: float) -> None:
    judged = noted = clock.now
    for observation in observations(fleet, fleet.now, until, interval_seconds):
        clock.now = observation.t
        live.observe(observation)
        if clock.now >= judged + interval_seconds:
            judged = clock.now
            live.evaluate()
            live.alerts = live.watch.incidents.alerts
        if live.history is not None and clock.now >= noted + 60.0:
            noted = clock.now
            live.history.note(live.plain_state())
