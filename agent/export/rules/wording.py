"""Words of the generated alerts that no verdict has. In: an objective. Out: possible causes, how its value is shown."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from agent.config import Objective

ValueFormat = Literal["seconds", "percent", "number"]

_BEFORE_THE_FIRST = (
    "queues before prefill, long prompts, decode too full to take the KV in, stalled or failing KV transfers, "
    "a frozen or missing engine"
)
_AFTER_THE_FIRST = (
    "lower acceptance of drafts, larger batches or longer contexts, decode steps outside CUDA graphs, preemptions, "
    "one slow rank, prompts recomputed on decode"
)

POSSIBLE_CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "ttft": _BEFORE_THE_FIRST,
        "queue": _BEFORE_THE_FIRST,
        "e2e": f"{_BEFORE_THE_FIRST}; {_AFTER_THE_FIRST}",
        "tpot": _AFTER_THE_FIRST,
        "tpot_token": _AFTER_THE_FIRST,
        "itl": _AFTER_THE_FIRST,
        "decode": f"longer answers, {_AFTER_THE_FIRST}",
        "prefill": "long prompts, larger batches, preemptions, steps outside CUDA graphs",
        "kv_transfer": "a busy or degraded network, fewer connections than before, prefill under load",
        "acceptance_length": "other prompts, a change of model or drafter, draft KV that is not handed over",
        "errors": "KV loads that fail, engines that die, admission limits, full memory",
    }
)
"""Indicator -> what usually lies behind its breach. vLLM's pages alone do not tell which; pdwatch does."""


def value_format(objective: Objective) -> ValueFormat:
    """How the alert's value is to be read."""
    if objective.statistic not in ("mean",) or objective.indicator == "errors":
        return "percent"
    return "seconds" if objective.unit == "seconds" else "number"
