"""What stands out in a window: a deployment's windows and memory come in, its pools' facts and problems go out.

The evaluation and the state look at the same window again and again: what was found is lent until something new has
come or another moment is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.indicators.facts import ROUTER_POOL, DeploymentFacts
from agent.indicators.memory.watch import Growth, MemoryWatch
from agent.indicators.pools import PoolFacts
from agent.indicators.system import legs
from agent.model import Problem
from agent.verdicts.problems import process_problems, service_problems
from agent.verdicts.router import router_problems
from agent.windows.fleet import FleetWindows


@dataclass(frozen=True, slots=True)
class Found:
    """One window, from `begin` to `now`. `router`: its targets as of a pool; None without one."""

    begin: float
    now: float
    pools: Sequence[PoolFacts]
    router: PoolFacts | None
    growths: tuple[Growth, ...]
    problems: tuple[Problem, ...]


class Findings:
    """`page_within_hours`: how far ahead an exhausted memory limit is a problem.

    `cost_per_draft_token`: as configured; None: not known.
    """

    def __init__(
        self,
        windows: FleetWindows,
        facts: DeploymentFacts,
        memory: MemoryWatch,
        page_within_hours: float,
        cost_per_draft_token: float | None = None,
    ) -> None:
        self._windows, self._facts, self._memory = windows, facts, memory
        self._page_within_hours = page_within_hours
        self._cost_per_draft_token = cost_per_draft_token
        self._last: Found | None = None

    def over(self, begin: float, now: float) -> Found:
        """All that is found over one window. Its increases change once another window of this length is asked for."""
        last = self._last
        if last is None or (last.begin, last.now) != (begin, now):
            self._last = last = self._look(begin, now)
        return last

    def forget(self) -> None:
        """Something new has come: the next look is made anew."""
        self._last = None
        self._facts.forget()

    def _look(self, begin: float, now: float) -> Found:
        pools, router = self._facts.pools(begin, now), self._facts.router(begin, now)
        histories, stale_after = self._windows.pools, self._facts.stale_after_seconds
        growths = tuple(self._memory.growths(now))
        problems = service_problems(
            pools, histories, legs(pools, router), begin, now, stale_after, self._cost_per_draft_token
        )
        if router is not None:
            problems += router_problems(router, histories[ROUTER_POOL], now, stale_after)
        problems += process_problems(self._memory, growths, self._page_within_hours, now)
        return Found(begin, now, pools, router, growths, tuple(problems))
