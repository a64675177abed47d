"""Which cause an objective's breach has: the objective and the pools' facts come in, a cause goes out.

A latency of the system or of a pool is explained by the pools that make it up; what nothing explains is None, and is
then said to be unexplained rather than guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.config import Objective
from agent.indicators.pools import PoolFacts
from agent.model import Problem, Role
from agent.verdicts.causes import Cause, tpot_cause, ttft_cause
from agent.windows.history import PoolHistory
from agent.windows.increase import Increase, merged

DECODING = frozenset({"tpot", "tpot_token", "itl", "decode"})
ARRIVING = frozenset({"ttft", "e2e", "queue", "prefill", "kv_transfer"})


def cause_of(
    objective: Objective,
    pools: Sequence[PoolFacts],
    histories: Mapping[str, PoolHistory],
    problems: Sequence[Problem],
    onset: float,
) -> Cause | None:
    """`onset`: when the objective was first seen broken. None where no cause can be told."""
    chosen = [pool for pool in pools if objective.scope in ("system", pool.name)]
    if objective.indicator in DECODING:
        return _decode_cause(objective, chosen, histories, problems, onset)
    if objective.indicator in ARRIVING:
        prefill, first = _legs(chosen, histories, ("prefill", "both"))
        decode, second = _legs(chosen, histories, ("decode",))
        return ttft_cause(prefill, decode, (first, second), onset)
    return None


def _decode_cause(
    objective: Objective,
    pools: Sequence[PoolFacts],
    histories: Mapping[str, PoolHistory],
    problems: Sequence[Problem],
    onset: float,
) -> Cause | None:
    for pool in pools:
        if pool.role in ("decode", "both"):
            own = [problem for problem in problems if problem.pool == pool.name]
            target_seconds = objective.target if objective.unit == "seconds" else 0.0
            return tpot_cause(pool.role, pool.total, histories[pool.name], onset, target_seconds, own)
    return None


def _legs(
    pools: Sequence[PoolFacts], histories: Mapping[str, PoolHistory], roles: tuple[Role, ...]
) -> tuple[Increase | None, PoolHistory | None]:
    """What the pools of these roles gained together, and the history of the first of them."""
    chosen = [pool for pool in pools if pool.role in roles]
    if not chosen:
        return None, None
    return merged(pool.total for pool in chosen), histories[chosen[0].name]
