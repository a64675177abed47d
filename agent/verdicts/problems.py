"""All rules that need no objective, in one explicit list: facts of the pools in, every problem that stands out.

A new rule is one file beside this one and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from agent.indicators.memory.watch import Growth, MemoryWatch
from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.state import Legs, ProblemState
from agent.verdicts.data import target_problems
from agent.verdicts.drafting import drafting_problems
from agent.verdicts.memory import memory_problems
from agent.verdicts.paying import not_paying
from agent.verdicts.queues import queue_problems
from agent.verdicts.stalls import silent_engines, stalls
from agent.verdicts.steps import step_problems
from agent.verdicts.traffic import traffic_problems
from agent.verdicts.vanished import vanished_traffic
from agent.windows.history import PoolHistory


def service_problems(
    pools: Sequence[PoolFacts],
    histories: Mapping[str, PoolHistory],
    legs: Legs | None,
    begin: float,
    now: float,
    stale_after_seconds: float,
    cost_per_draft_token: float | None = None,
) -> list[Problem]:
    """What is wrong with the data and with the service, over the window from `begin` to `now`.

    `cost_per_draft_token`: as configured, step time as a share of a step without drafts.
    """
    found: list[Problem] = []
    for pool in pools:
        history = histories[pool.name]
        found += target_problems(pool, now, stale_after_seconds)
        found += stalls(pool)
        found += silent_engines(pool, begin)
        found += drafting_problems(pool, history, begin, now)
        found += not_paying(pool, history, begin, now, cost_per_draft_token)
        found += step_problems(pool, history, now)
        found += vanished_traffic(pool, history, now)
    found += traffic_problems(pools, legs, begin)
    found += queue_problems(pools, histories, begin, now)
    return found


def process_problems(
    memory: MemoryWatch, growths: Sequence[Growth], page_within_hours: float, now: float
) -> list[Problem]:
    """What is wrong with the servers' processes, and what could not be read of them."""
    found = memory_problems(growths, memory.roles, page_within_hours, now)
    for t, problem in memory.source_problems():
        severity: Literal["critical", "warning"] = "critical" if problem.code == "engine_frozen" else "warning"
        found.append(Problem(problem.code, problem.target, t, problem.text, severity))
    return found


def shown(problem: Problem) -> ProblemState:
    """A problem as the state shows it: what is not known is None."""
    return ProblemState(
        code=problem.code,
        target=problem.target or None,
        since=problem.since,
        text=problem.text,
        severity=problem.severity,
        pool=problem.pool or None,
        engine=problem.engine or None,
        process=problem.process or None,
        evidence=problem.evidence,
    )
