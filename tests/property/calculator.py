"""The slow calculator. In: what servers did. Out: what a watchdog that sees only their pages can know of it.

No counters and no differences: every request is kept in a list, and belongs to the stretch between two pages that both
show its engine within one process's life, or between a page and the next that a process begun since then gave. What no
pair of pages encloses is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.property.fleets import BEGAN, EVERY_SECONDS, Request, Turn


@dataclass
class Stretch:
    """Requests of one engine that a page brought to light, by the page's time."""

    t: float
    requests: list[Request]


def stretches(turns: list[Turn], engines: int) -> list[Stretch]:
    """All that can be known of one target."""
    found = []
    for rank in range(engines):
        pending: list[Request] = []
        seen = False  # this process's engine stood on an earlier page
        began_since = False  # this process began after the last page that came
        came = False  # a page, at all
        for number, turn in enumerate(turns):
            if turn.restarted:
                pending, seen, began_since = [], False, came
            pending += turn.served[rank]
            if turn.lost:
                continue
            if rank not in turn.absent:
                if seen or began_since:
                    found.append(Stretch(BEGAN + EVERY_SECONDS * number, pending))
                pending, seen = [], True
            began_since, came = False, True
    return found


def within(found: Iterable[Stretch], since: float, until: float) -> list[Request]:
    return [request for stretch in found if since < stretch.t <= until for request in stretch.requests]


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def covered_seconds(turns: list[Turn], since: float, until: float) -> float:
    """From the last page at or before `since` (or the first there is) to the last at or before `until`."""
    times = [BEGAN + EVERY_SECONDS * number for number, turn in enumerate(turns) if not turn.lost]
    ends = [t for t in times[1:] if since < t <= until]
    return ends[-1] - times[times.index(ends[0]) - 1] if ends else 0.0
