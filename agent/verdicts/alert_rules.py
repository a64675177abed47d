"""What each problem is called when it calls somebody, and how long it must stand. In: a problem's code. Out: its rule.

One table for all: the alert's name, how long a problem stands before it is told (many rules have their own time in
them already), how long it must be gone before it is taken back, and what one alert is about. Where many things fail
together (the ranks of a leaking pool) one alert is about the pool and names them in its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Grouping = Literal["system", "pool", "target", "engine", "process"]
Board = Literal["overview", "prefill", "decode", "kv-transfer", "memory"]

OBJECTIVE_ALERT = "PDWatchObjectiveBreached"
BUDGET_ALERT = "PDWatchErrorBudgetBurn"
POOL_UNREACHABLE = "pool_unreachable"
"""Row of the problem `unreachable` when it is about a whole pool."""

PROCESS_CODES = frozenset({"memory_leak", "memory_growth", "oom_imminent", "process_gone", "process_unreadable"})
"""What only a pdwatch on the server's own host sees: all that `mode: sidecar` alerts on."""


@dataclass(frozen=True, slots=True)
class AlertRule:
    """`by`: the finest thing that one alert is about. `summary`: the same sentence for every alert of the name."""

    name: str
    by: Grouping
    hold_seconds: float
    clear_seconds: float
    board: Board
    summary: str


_MINUTE = 60.0
_ROWS: tuple[tuple[str, str, Grouping, float, float, Board, str], ...] = (
    # code, name, by, hold and clear in minutes, board, summary
    ("engine_frozen", "EngineFrozen", "engine", 0, 2, "decode", "An engine has work and produces nothing."),
    ("engine_silent", "EngineSilent", "engine", 5, 5, "decode", "An engine gets or takes no request."),
    ("kv_stalled", "KvStalled", "engine", 0, 3, "kv-transfer", "Requests wait for KV and no transfer completes."),
    (POOL_UNREACHABLE, "PoolUnreachable", "pool", 1, 2, "overview", "No target of a pool answers."),
    ("traffic_vanished", "TrafficVanished", "pool", 0, 5, "overview", "Traffic that is always there has stopped."),
    ("errors_high", "ErrorsHigh", "pool", 2, 5, "overview", "Too many requests of a pool fail."),
    ("oom_imminent", "OomImminent", "target", 0, 15, "memory", "A server is about to run out of memory."),
    ("memory_leak", "MemoryLeak", "pool", 0, 30, "memory", "Processes of a pool leak memory."),
    ("memory_growth", "MemoryGrowth", "pool", 0, 30, "memory", "Memory of processes of a pool keeps growing."),
    ("process_gone", "ProcessGone", "target", 5, 5, "memory", "A server process has gone."),
    ("process_unreadable", "ProcessUnreadable", "target", 10, 5, "memory", "A server's memory cannot be read."),
    ("unreachable", "TargetUnreachable", "target", 5, 2, "overview", "A target does not answer."),
    ("unusable_page", "UnusablePage", "target", 5, 2, "overview", "A target's metrics page cannot be used."),
    ("stale", "TargetStale", "target", 5, 2, "overview", "A target's metrics are out of date."),
    ("engine_missing", "EngineMissing", "engine", 5, 2, "overview", "An engine has left its metrics page."),
    ("inconsistent_source", "InconsistentSource", "target", 5, 10, "overview", "A target's pages contradict another."),
    ("role_mismatch", "RoleMismatch", "pool", 5, 10, "overview", "A pool's traffic is not that of its role."),
    ("metric_missing", "MetricMissing", "target", 5, 5, "overview", "A target lacks metrics that are needed."),
    ("implausible", "ImplausibleMetric", "target", 5, 10, "overview", "A metric contradicts itself and is not used."),
    ("kv_expired", "KvExpired", "pool", 3, 10, "kv-transfer", "KV leases ran out before decode had read them."),
    ("kv_pinned", "KvPinned", "engine", 0, 3, "kv-transfer", "A KV cache is full while nothing runs."),
    ("transfer_failures", "TransferFailures", "pool", 5, 10, "kv-transfer", "KV transfers fail."),
    ("local_recompute", "LocalRecompute", "pool", 5, 10, "kv-transfer", "Decode computes prompts itself."),
    ("legs_unmatched", "LegsUnmatched", "system", 5, 10, "overview", "Prefill legs have no decode leg."),
    ("speculation_ineffective", "SpeculationIneffective", "pool", 5, 10, "decode", "Drafts are not accepted."),
    ("speculation_collapsed", "SpeculationCollapsed", "pool", 5, 10, "decode", "Acceptance of drafts has collapsed."),
    ("speculation_not_paying", "SpeculationNotPaying", "pool", 5, 30, "decode", "Drafting costs more than it gains."),
    ("latency_step_change", "LatencyStepChange", "pool", 5, 10, "decode", "Steps take longer at the same load."),
    ("queue_buildup", "QueueBuildup", "pool", 5, 5, "overview", "A pool's queue grows."),
    ("pool_imbalance", "PoolImbalance", "pool", 5, 5, "overview", "One pool or engine bounds the others."),
    ("rank_slow", "RankSlow", "engine", 5, 10, "decode", "One rank is slower than its siblings."),
    ("spans_disagree", "SpansDisagree", "pool", 5, 10, "overview", "Request spans and metrics disagree."),
    ("pool_empty", "PoolEmpty", "pool", 1, 2, "overview", "A pool has no target."),
    ("discovery_failed", "DiscoveryFailed", "pool", 5, 5, "overview", "Targets of a pool cannot be looked for."),
    ("config_reload_failed", "ConfigReloadFailed", "system", 5, 2, "overview", "A changed configuration is not used."),
    ("agent_overloaded", "AgentOverloaded", "system", 5, 5, "overview", "pdwatch itself cannot keep up."),
    ("agent_error", "AgentError", "system", 5, 5, "overview", "pdwatch itself has failed somewhere."),
)

ALERT_RULES: Mapping[str, AlertRule] = MappingProxyType(
    {
        code: AlertRule(f"PDWatch{name}", by, hold * _MINUTE, clear * _MINUTE, board, summary)
        for code, name, by, hold, clear, board, summary in _ROWS
    }
)
"""Problem code (and `pool_unreachable`) -> its rule."""


def alert_rule(code: str, *, whole_pool: bool = False) -> AlertRule:
    """The rule of a problem; one that the table does not know is a warning like most, about its target."""
    known = ALERT_RULES.get(POOL_UNREACHABLE if code == "unreachable" and whole_pool else code)
    if known is not None:
        return known
    name = "".join(word.capitalize() for word in code.split("_"))
    return AlertRule(f"PDWatch{name}", "target", 5 * _MINUTE, 5 * _MINUTE, "overview", f"Problem {code}.")
