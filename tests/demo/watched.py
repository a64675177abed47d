"""A simulated fleet under watch. In: a fleet. Out: the watch's state, and the truth of the same stretch of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.config import Scrape, config_from_names
from agent.demo import Fleet, Topology, Truth, observations, story, truth
from agent.model import PageObservation
from agent.state import State
from agent.watch import Watch

START = 1_796_000_000.0 - 1_796_000_000.0 % 86400 + 12 * 3600
"""Noon, UTC: near the busiest hour."""


def middle(seed: int = 1) -> Topology:
    """A quarter of the large fleet with as much traffic per engine."""
    large = story(seed)
    return replace(
        large,
        prefill=replace(large.prefill, targets=2, engines=2),
        decode=replace(large.decode, engines=4),
        traffic=replace(large.traffic, peak_requests_per_second=1.4),
    )


@dataclass
class Seen:
    """A watch, and when each target's pages were taken."""

    fleet: Fleet
    watch: Watch
    times: dict[str, list[float]]

    def last_pages(self, t: float) -> Mapping[str, float]:
        """Target -> its last page at or before `t`."""
        return {target: max(moment for moment in moments if moment <= t) for target, moments in self.times.items()}

    def state(self, since: float, until: float) -> State:
        return self.watch.state(until, since=since)

    def truth(self, since: float, until: float) -> Truth:
        """What happened between the pages that the state of the same stretch is made of."""
        return truth(self.fleet, self.last_pages(since), self.last_pages(until))


def watched(fleet: Fleet, until: float, interval_seconds: float = 30.0) -> Seen:
    """The fleet's pages from now to `until`, all seen by one watch."""
    config = replace(config_from_names(fleet.targets), scrape=Scrape(interval_seconds))
    watch = Watch(config, retain_seconds=2 * (until - fleet.now))
    times: dict[str, list[float]] = {target: [] for target in fleet.targets}
    for observation in observations(fleet, fleet.now, until, interval_seconds):
        watch.observe(observation)
        if isinstance(observation, PageObservation):
            times[observation.target].append(observation.t)
    return Seen(fleet, watch, times)


def problems(state: State) -> set[str]:
    """Codes of the problems that stand."""
    return {problem.code for problem in state.problems}
