"""How the sentences of a verdict name things: an objective, a number with its unit, a range of prompt lengths.

In: objectives and plain numbers. Out: short phrases, the same on a page, in an alert and in a report.
"""

from __future__ import annotations

import math

from agent.config import Objective, duration_text

LABELS = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "tpot_token": "TPOT per token",
    "itl": "ITL",
    "queue": "queue time",
    "prefill": "prefill time",
    "decode": "decode time",
    "e2e": "end-to-end latency",
    "kv_transfer": "KV transfer time",
    "acceptance_length": "acceptance length",
    "errors": "error share",
}


def amount(value: float | None, unit: str) -> str:
    """A number as a person reads it: 23.1 ms, 2.61 s, 4.2 %, 2.31 tokens per step. None and infinity are said."""
    if value is None:
        return "unknown"
    if math.isinf(value):
        return "anything"
    if unit == "ratio":
        return f"{100 * value:.4g} %"
    if unit == "tokens":
        return f"{value:.3g} tokens per step"
    return f"{1000 * value:.3g} ms" if abs(value) < 0.9995 else f"{value:.3g} s"


def between(low: float | None, high: float | None, unit: str) -> str:
    """A range: `between 1 s and 2.5 s`, `above 2.5 s`, `at most 300 ms`."""
    if high is None or math.isinf(high):
        return f"above {amount(low, unit)}"
    if low is None or low <= 0:
        return f"at most {amount(high, unit)}"
    return f"between {amount(low, unit)} and {amount(high, unit)}"


def subject(objective: Objective) -> str:
    """What the objective speaks of: `mean TPOT of decode`, `share of TTFT within 300 ms of the system`."""
    scope = "the system" if objective.scope == "system" else objective.scope
    label = LABELS[objective.indicator]
    if objective.statistic == "share":
        return f"share of {label} within {amount(objective.target, objective.unit)} of {scope}"
    if objective.indicator in ("errors", "acceptance_length"):
        return f"{label} of {scope}"
    return f"{objective.statistic} {label} of {scope}"


def promised(objective: Objective) -> str:
    """What was promised: `promised 20 ms`, `promised at least 95 %`."""
    if objective.statistic == "share":
        return f"promised at least {amount(objective.objective_ratio, 'ratio')}"
    least = "at least " if objective.higher_is_better else "at most " if objective.unit == "ratio" else ""
    return f"promised {least}{amount(objective.target, objective.unit)}"


def over(objective: Objective) -> str:
    """The window: `in the last 5m`."""
    return f"in the last {duration_text(objective.window_seconds)}"


def tokens(count: int) -> str:
    """A prompt length: 16384 is 16K, 10000 stays 10000."""
    return f"{count // 1024}K" if count >= 1024 and count % 1024 == 0 else str(count)


def lengths(promise: tuple[int, int]) -> str:
    """A range of prompt lengths: 16K-256K."""
    return f"{tokens(promise[0])}-{tokens(promise[1])}"


def share_range(low: float, high: float) -> str:
    """A range of shares in whole per cents: `18-24 %`, widened so that it still holds; `up to 7 %` from 0."""
    least, most = math.floor(100 * low + 1e-9), math.ceil(100 * high - 1e-9)
    if least <= 0:
        return f"up to {most} %"
    return f"{least} %" if least == most else f"{least}-{most} %"
