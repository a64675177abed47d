"""The first minutes of a server: pools' facts come in, what fresh servers gained while warming up goes out.

The first requests after a start wait for compilation, graph capture and empty caches. Users did wait, so the verdict
says so; but a rollout must not call anybody: a breach that stands only because of such minutes begins no incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.indicators.pools import PoolFacts, TargetFacts
from agent.windows.increase import Increase, merged
from agent.windows.interval import Gathering, Interval
from agent.windows.target import TargetWindow

WARM_UP_SECONDS = 120.0
YOUNG_SECONDS = 900.0
"""A server seen for the first time is fresh when its process is younger than this: loading weights takes minutes."""


class WarmUps:
    """Remembers which targets started when, as far as that is seen."""

    def __init__(self, warm_up_seconds: float = WARM_UP_SECONDS) -> None:
        self.warm_up_seconds = warm_up_seconds
        self._first_seen: dict[str, float | None] = {}

    def note(self, targets: Mapping[str, TargetWindow]) -> None:
        """Looks for targets that were not there before. To be called with every evaluation."""
        present: dict[str, float | None] = {}
        for name, window in targets.items():
            latest = window.latest
            if name in self._first_seen:
                present[name] = self._first_seen[name]
            elif latest is not None:
                present[name] = latest.t if _is_young(window, latest.t) else None
        self._first_seen = present

    def shift(self, seconds: float) -> None:
        """Moves what is remembered in time, after the clock was set by `seconds`."""
        self._first_seen = {name: None if t is None else t + seconds for name, t in self._first_seen.items()}

    def gained(self, pool: PoolFacts) -> Increase | None:
        """What the pool's fresh servers gained while warming up, in the facts' window; None when there are none."""
        warming = [interval for name, target in pool.targets.items() for interval in self._warming(name, target)]
        return _added(warming) if warming else None

    def rest(self, pool: PoolFacts) -> Increase:
        """What the pool gained without that."""
        others: list[Interval] = []
        for name, target in pool.targets.items():
            warming = set(map(id, self._warming(name, target)))
            others.extend(interval for interval in target.gained.intervals if id(interval) not in warming)
        return _added(others)

    def _warming(self, name: str, target: TargetFacts) -> list[Interval]:
        starts = [t for t, _ in target.window.health.restarted]
        first = self._first_seen.get(name)
        if first is not None:
            starts.append(first)
        # The interval in which a restart was noticed ends at `start` and is the new process's already.
        return [
            interval
            for interval in target.gained.intervals
            if any(interval.end >= start and interval.start < start + self.warm_up_seconds for start in starts)
        ]


def _added(intervals: Iterable[Interval]) -> Increase:
    """What all engines gained in these intervals."""
    gathering = Gathering(pooled=True)
    for interval in intervals:
        gathering.add(interval)
    return merged(gathering.result().values())


def _is_young(window: TargetWindow, t: float) -> bool:
    started = window.gauge("process_start_time_seconds").values()
    return any(0 <= t - start < YOUNG_SECONDS for start in started)
