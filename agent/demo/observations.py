"""What a scraper would have seen. In: a fleet and a stretch of time. Out: observations in order of time.

Each target is asked at its own offset within the interval, with a little jitter, as real scrapers do. The observations
can be fed to the engine directly or written as a recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from agent.demo.fleet import Fleet
from agent.demo.pages import CONTENT_TYPE
from agent.model import FailureObservation, PageObservation, ProcessesObservation

Seen = PageObservation | FailureObservation | ProcessesObservation


def observations(
    fleet: Fleet,
    since: float,
    until: float,
    interval_seconds: float = 15.0,
    *,
    processes_interval_seconds: float | None = 60.0,
    jitter_seconds: float = 0.05,
    together: bool = False,
) -> Iterator[Seen]:
    """Advance the fleet from `since` to `until` and yield what is seen on the way, both ends included.

    `together`: all targets are asked at the same moments, without offset and jitter. `processes_interval_seconds` None:
    no process readings. Each target is asked `interval_seconds` apart; a server that is down gives a failure.
    """
    rng = Random(f"{fleet.topology.seed}:scraper")
    due: list[tuple[float, int, str, bool]] = []
    for index, target in enumerate(fleet.targets):
        offset = 0.0 if together else rng.random()
        heappush(due, (since + offset * interval_seconds, index, target, False))
        if processes_interval_seconds is not None:
            heappush(due, (since + offset * interval_seconds, index, target, True))
    while due and due[0][0] <= until:
        base, index, target, wants_processes = heappop(due)
        every = processes_interval_seconds if wants_processes else interval_seconds
        assert every is not None
        heappush(due, (base + every, index, target, wants_processes))
        fleet.advance(base if together else min(until, base + rng.random() * jitter_seconds))
        if wants_processes:
            seen = fleet.processes(target)
            if seen.processes:
                yield seen
        else:
            yield observe(fleet, target, rng)
    fleet.advance(until)


def observe(fleet: Fleet, target: str, rng: Random) -> PageObservation | FailureObservation:
    """One scrape of one target at this moment."""
    page = fleet.page(target)
    if page is None:
        return FailureObservation(fleet.now, target, "refused", "Connection refused")
    return PageObservation(fleet.now, target, page, round(0.004 + 0.02 * rng.random(), 4), CONTENT_TYPE)
