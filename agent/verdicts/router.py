"""What is wrong at the router in front: its facts come in, problems go out.

A router that cannot be read blinds nobody: the servers' pages go on, and the user's TTFT is composed of their legs.
So it is never worth a page by itself; that no request arrives any more is.
"""

from __future__ import annotations

from dataclasses import replace

from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.verdicts.data import target_problems
from agent.verdicts.vanished import vanished_traffic
from agent.windows.history import PoolHistory


def router_problems(router: PoolFacts, history: PoolHistory, now: float, stale_after_seconds: float) -> list[Problem]:
    """`router`: its targets as of a pool; `history`: what they gained in the past."""
    found = [
        replace(problem, severity="warning") if problem.severity == "critical" else problem
        for problem in target_problems(router, now, stale_after_seconds)
    ]
    return found + vanished_traffic(router, history, now)
