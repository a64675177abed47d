"""The windows of a whole deployment: every target's recent past and every pool's long one, by name.

In: readings and failures. Out: what each target gained in a window, and each pool over up to three days. Targets are
those of the configuration; one that is taken out of it is forgotten with its series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.model import Reading
from agent.windows.history import PoolHistory
from agent.windows.interval import Interval
from agent.windows.target import TargetWindow

RETAIN_SECONDS = 900.0
"""How long intervals are kept scrape by scrape; longer windows come from the pool's minute slots."""


class FleetWindows:
    """`pool_of`: target name -> pool name. `pools`: names of pools that may have no target now."""

    def __init__(
        self, pool_of: Mapping[str, str], retain_seconds: float = RETAIN_SECONDS, pools: Iterable[str] = ()
    ) -> None:
        self._pool_of = dict(pool_of)
        self.retain_seconds = retain_seconds
        self.targets = {target: TargetWindow(retain_seconds) for target in pool_of}
        self.pools = {pool: PoolHistory() for pool in dict.fromkeys((*pools, *pool_of.values()))}

    def take(self, reading: Reading) -> tuple[str, Interval] | None:
        """Adds a page; what became certain by it goes into its pool's history and is returned with the pool's name."""
        certain = self.targets[reading.target].take(reading)
        if certain is None:
            return None
        pool = self._pool_of[reading.target]
        self.pools[pool].add(certain)
        return pool, certain

    def failed(self, target: str, t: float, error: str, text: str = "") -> None:
        self.targets[target].failed(t, error, text)

    def in_pool(self, pool: str) -> Iterable[tuple[str, TargetWindow]]:
        return ((name, window) for name, window in self.targets.items() if self._pool_of[name] == pool)

    def set_targets(self, pool_of: Mapping[str, str], pools: Iterable[str] = ()) -> None:
        """Takes a new list of targets: histories of those that stay are kept, the others go at once.

        A pool keeps its history while it is among `pools`, whether it has a target or not.
        """
        self._pool_of = dict(pool_of)
        self.targets = {target: self.targets.get(target) or TargetWindow(self.retain_seconds) for target in pool_of}
        names = dict.fromkeys((*pools, *pool_of.values()))
        self.pools = {pool: self.pools.get(pool) or PoolHistory() for pool in names}

    def shift(self, seconds: float) -> None:
        """Moves all history in time, after the wall clock was set by `seconds`."""
        for window in self.targets.values():
            window.shift(seconds)
        for history in self.pools.values():
            history.shift(seconds)
