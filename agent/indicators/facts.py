"""Facts of a deployment over a window: the windows of all targets come in, one `PoolFacts` per pool goes out.

A router is watched like a pool of its own, under a name that no pool can have.
"""

from __future__ import annotations

from agent.config import Config
from agent.indicators.pools import PoolFacts, TargetFacts, pool_facts
from agent.model import Role
from agent.windows.fleet import FleetWindows

ROUTER_POOL = "router"
STALE_INTERVALS = 3.0
STALE_AT_LEAST_SECONDS = 15.0


class DeploymentFacts:
    """`stale_after_seconds`: a page older than this no longer says how things are now."""

    def __init__(self, config: Config, windows: FleetWindows) -> None:
        self._config, self._windows = config, windows
        self.stale_after_seconds = max(STALE_AT_LEAST_SECONDS, STALE_INTERVALS * config.scrape.interval_seconds)
        self._lent: dict[tuple[float, float], list[PoolFacts]] = {}

    def pools(self, begin: float, now: float) -> list[PoolFacts]:
        """Every pool, in the configured order. Its increases change once a window of this length is asked for at
        another moment, or something new has come and `forget` was called.
        """
        if any(asked_at != now for _, asked_at in self._lent):
            self._lent.clear()
        if (begin, now) not in self._lent:
            self._lent[begin, now] = [
                self._of(pool.name, pool.role, pool.gpus_per_target, begin, now) for pool in self._config.pools
            ]
        return self._lent[begin, now]

    def forget(self) -> None:
        """Something new has come: facts of this moment are made anew."""
        self._lent.clear()

    def router(self, begin: float, now: float) -> PoolFacts | None:
        """The routers together; None without one."""
        return self._of(ROUTER_POOL, "router", None, begin, now) if self._config.router is not None else None

    def _of(self, pool: str, role: Role, gpus_per_target: int | None, begin: float, now: float) -> PoolFacts:
        targets = {}
        for name, window in self._windows.in_pool(pool):
            age = window.age_seconds(now)
            fresh = age is not None and age <= self.stale_after_seconds
            targets[name] = TargetFacts(window, window.increases(begin, now), fresh, age, ())
        gpus = gpus_per_target * len(targets) if gpus_per_target is not None and targets else None
        long = None
        if now - begin > self._windows.retain_seconds:
            long = self._windows.pools[pool].window(now - begin, now)
        return pool_facts(pool, role, gpus, targets, long)


def pool_of(config: Config) -> dict[str, str]:
    """Target -> the pool it belongs to, routers included."""
    found = {target.name: pool.name for pool in config.pools for target in pool.targets}
    if config.router is not None:
        found |= {target.name: ROUTER_POOL for target in config.router.targets}
    return found


def pools_of(config: Config) -> tuple[str, ...]:
    """The names of all pools, of those without a target too, the routers' included."""
    return (*(pool.name for pool in config.pools), *((ROUTER_POOL,) if config.router is not None else ()))


def roles_of(config: Config) -> dict[str, Role]:
    """Target -> the role of its pool."""
    return {target.name: pool.role for pool in config.pools for target in pool.targets}
