"""Which things belong to one incident. In: what stands, by code, scope and cause. Out: whether one explains the other.

A frozen engine makes a queue, a queue breaks a promise, and all three would call the same person for the same thing.
The tables say which problem may stand behind which cause of a broken objective, and which problems follow from which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.model import Role

SYSTEM = "system"

GONE = frozenset({"unreachable", "engine_frozen", "engine_silent", "engine_missing", "process_gone"})
"""Capacity that is not there: the others take its load."""
CROWDED = frozenset({"queue_buildup", "pool_imbalance", "kv_pinned"}) | GONE
HAND_OVER = frozenset({"kv_stalled", "kv_expired", "transfer_failures", "local_recompute", "legs_unmatched"})
GIVEN_UP = frozenset({"kv_expired", "legs_unmatched"})
"""What clients leave behind that went away while they waited."""
DRAFTING = frozenset({"speculation_collapsed", "speculation_ineffective", "speculation_not_paying"})
SLOW = frozenset({"latency_step_change", "rank_slow"})

CAUSES: Mapping[str, frozenset[str]] = {
    "acceptance_drop": DRAFTING,
    "request_mix": frozenset(),
    "rank_slow": SLOW | {"engine_frozen"},
    "preemptions": CROWDED,
    "batch_growth": CROWDED,
    "longer_contexts": CROWDED,
    "graph_fallback": SLOW,
    "step_time": SLOW | GONE | {"local_recompute"},
    "prefill_queue": CROWDED | GIVEN_UP | {"kv_stalled"},
    "prefill_compute": SLOW | GIVEN_UP | {"queue_buildup", "pool_imbalance"},
    "kv_transfer": HAND_OVER | GONE,
    "decode_wait": CROWDED | HAND_OVER,
    "first_step": SLOW | {"local_recompute"},
}
"""Cause of a broken objective -> problems that may stand behind it, or come of the same."""

_FIRST_TOKEN = CROWDED | HAND_OVER | SLOW
INDICATORS: Mapping[str, frozenset[str]] = {
    "ttft": _FIRST_TOKEN,
    "queue": CROWDED | HAND_OVER,
    "prefill": SLOW | CROWDED,
    "e2e": _FIRST_TOKEN | DRAFTING,
    "kv_transfer": HAND_OVER | GONE,
    "tpot": DRAFTING | SLOW | CROWDED | {"local_recompute"},
    "tpot_token": DRAFTING | SLOW | CROWDED | {"local_recompute"},
    "itl": SLOW | CROWDED | {"local_recompute"},
    "decode": DRAFTING | SLOW | CROWDED,
    "acceptance_length": DRAFTING,
    "errors": HAND_OVER | GONE | {"errors_high", "oom_imminent"},
}
"""Indicator -> problems that may stand behind its objective when the cause is not known."""

SPANNING = frozenset({"ttft", "queue", "e2e", "kv_transfer", "errors", "prefill"})
"""Indicators that a problem of the pool at the other end of the hand-over can break."""

FOLLOWS: Mapping[str, frozenset[str]] = {
    "unreachable": CROWDED
    | HAND_OVER
    | {"stale", "unusable_page", "errors_high", "traffic_vanished", "process_gone", "process_unreadable"},
    "process_gone": CROWDED | HAND_OVER | {"stale", "errors_high"},
    "engine_frozen": CROWDED | HAND_OVER | {"rank_slow", "errors_high", "stale"},
    "engine_silent": CROWDED | HAND_OVER,
    "engine_missing": CROWDED | {"errors_high"},
    "kv_stalled": CROWDED | HAND_OVER | {"errors_high"},
    "kv_pinned": CROWDED | {"kv_expired", "legs_unmatched"},
    "transfer_failures": HAND_OVER | {"errors_high"},
    "kv_expired": HAND_OVER | {"errors_high"},
    "pool_imbalance": frozenset({"queue_buildup", "kv_expired", "legs_unmatched"}),
    "errors_high": frozenset({"legs_unmatched"}),
    "oom_imminent": frozenset({"memory_leak", "memory_growth", "process_gone"}),
    "memory_leak": frozenset({"memory_growth"}),
    "speculation_ineffective": DRAFTING,
    "speculation_collapsed": DRAFTING,
    "agent_overloaded": frozenset({"stale"}),
    "pool_empty": frozenset({"discovery_failed", "traffic_vanished", "legs_unmatched"}),
    "stale": frozenset({"unusable_page"}),
}
"""Problem -> problems that it brings with it."""


@dataclass(frozen=True, slots=True)
class Matter:
    """What something that stands is about. A problem has a `code`; an objective an `indicator`, perhaps a `cause`."""

    scope: str
    code: str = ""
    target: str = ""
    objective: str = ""
    indicator: str = ""
    cause: str = ""


class Relations:
    """`roles`: pool -> role, from the configuration."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self._roles = roles

    def explains(self, problem: Matter, objective: Matter) -> bool:
        """Whether the problem may stand behind the objective's breach."""
        codes = CAUSES.get(objective.cause)
        if codes is None:
            codes = INDICATORS.get(objective.indicator, frozenset())
        if problem.code not in codes:
            return False
        if objective.indicator in SPANNING:
            return self._joined(problem.scope, objective.scope)
        return self._decodes(problem.scope) and _overlap(problem.scope, objective.scope)

    def belong(self, one: Matter, other: Matter) -> bool:
        """Whether both are one incident, as far as the two alone tell."""
        if one.code and other.code:
            return self._problems_belong(one, other)
        if one.code:
            return self.explains(one, other)
        if other.code:
            return self.explains(other, one)
        if (one.objective, one.scope) == (other.objective, other.scope):
            return True
        causes_agree = one.cause == other.cause or not one.cause or not other.cause
        return one.indicator == other.indicator and causes_agree and _overlap(one.scope, other.scope)

    def _problems_belong(self, one: Matter, other: Matter) -> bool:
        if one.code == other.code:
            return one.scope == other.scope
        follows = other.code in FOLLOWS.get(one.code, ()) or one.code in FOLLOWS.get(other.code, ())
        return follows and self._joined(one.scope, other.scope)

    def _joined(self, one: str, other: str) -> bool:
        """The same pool, the whole system, or the two ends of a hand-over."""
        if _overlap(one, other):
            return True
        return {self._roles.get(one), self._roles.get(other)} == {"prefill", "decode"}

    def _decodes(self, scope: str) -> bool:
        return self._roles.get(scope) != "prefill"


def _overlap(one: str, other: str) -> bool:
    return one == other or SYSTEM in (one, other)
