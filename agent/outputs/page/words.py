"""The page's words: verdicts, moments and tones. In: values of the state. Out: short phrases and pieces of markup.

A tone is never colour alone: each has a shape and a word of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from agent.config import Objective
from agent.outputs import numbers
from agent.outputs.page.html import Child, Markup, el, join
from agent.state import Bounded, Quantile, VerdictState
from agent.verdicts.phrases import LABELS, amount
from agent.verdicts.wording import duration

Tone = Literal["good", "bad", "warn", "unknown", "none"]

VERDICTS: Mapping[str, tuple[str, Tone]] = {
    "met": ("kept", "good"),
    "breached": ("broken", "bad"),
    "undecided": ("cannot tell", "unknown"),
    "insufficient_data": ("too few requests", "none"),
    "no_data": ("no traffic", "none"),
    "not_applicable": ("does not apply", "none"),
}
SEVERITIES: Mapping[str, Tone] = {"critical": "bad", "warning": "warn", "info": "none"}

_SHAPES: Mapping[Tone, str] = {
    "good": '<circle class="f" cx="8" cy="8" r="8"/><path class="s" d="M4.2 8.3l2.6 2.6 5-5.4"/>',
    "bad": '<path class="f" d="M4.7 0h6.6L16 4.7v6.6L11.3 16H4.7L0 11.3V4.7z"/>'
    '<path class="s" d="M5 5l6 6M11 5l-6 6"/>',
    "warn": '<path class="f" d="M8 .6L16 15H0z"/><path class="s" d="M8 5.6v4.2M8 12.2v.6"/>',
    "unknown": '<circle class="f" cx="8" cy="8" r="8"/>'
    '<path class="s" d="M5.8 6.2c0-3 4.4-2.9 4.4-.2 0 1.7-2.2 1.7-2.2 3.2M8 11.7v.6"/>',
    "none": '<circle class="f" cx="8" cy="8" r="8"/><path class="s" d="M4.4 8h7.2"/>',
}


def icon(tone: Tone) -> Markup:
    """The tone's shape; the word stands beside it, so a screen reader passes it by."""
    shape = Markup(_SHAPES[tone])
    return el("svg", shape, class_=f"icon {tone}", viewBox="0 0 16 16", aria_hidden="true", focusable="false")


def badge(word: str, tone: Tone) -> Markup:
    """Shape and word."""
    return el("span", icon(tone), el("span", word), class_=f"badge {tone}")


def verdict_word(verdict: VerdictState | None) -> tuple[str, Tone]:
    """What a verdict is called, and its tone."""
    if verdict is None:
        return "not judged yet", "none"
    if verdict.verdict == "no_data" and "lack the metric" in verdict.text:
        return "not measured", "none"
    return VERDICTS[verdict.verdict]


def subject(objective: Objective) -> str:
    """`Mean TTFT of the system`, `Share of TPOT within 20 ms, pool decode`."""
    scope = "the system" if objective.scope == "system" else f"pool {objective.scope}"
    label = LABELS[objective.indicator]
    if objective.statistic == "share":
        return f"Share of {label} within {amount(objective.target, objective.unit)}, {scope}"
    if objective.indicator in ("errors", "acceptance_length"):
        return f"{label[:1].upper()}{label[1:]} of {scope}"
    return f"{objective.statistic[:1].upper()}{objective.statistic[1:]} {label} of {scope}"


def unit_of(objective: Objective) -> str:
    """What its value is counted in."""
    return "ratio" if objective.statistic == "share" else objective.unit


def promise(objective: Objective) -> str:
    """`promised at most 20 ms`."""
    if objective.statistic == "share":
        return f"promised at least {amount(objective.objective_ratio, 'ratio')}"
    return f"promised at {'least' if objective.higher_is_better else 'most'} {amount(objective.target, objective.unit)}"


def window(objective: Objective) -> str:
    """`last 5 min`."""
    return f"last {duration(objective.window_seconds)}"


def interval(low: float | None, high: float | None, unit: str) -> str | None:
    """`35.9 ms to 41.4 ms`, `above 80 ms`; None where it is no more than the value."""
    if low is None and high is None:
        return None
    if low is not None and high is not None and math.isclose(low, high, rel_tol=1e-6):
        return None
    if high is None or math.isinf(high):
        return f"above {amount(low, unit)}"
    if low is None or low <= 0:
        return f"at most {amount(high, unit)}"
    return f"{amount(low, unit)} to {amount(high, unit)}"


def quantile_value(found: Quantile | None) -> str:
    """The best single number of a quantile; none where only bounds are known."""
    if found is None:
        return numbers.UNKNOWN
    if found.high is None:
        return f"> {numbers.seconds(found.low)}"
    return numbers.seconds(found.value)


def moment(at: float, now: float) -> Markup:
    """The time of day in UTC, with the date where it is another day's."""
    try:
        then, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    except (ValueError, OverflowError, OSError):
        return el("span", "at an unknown time")
    shape = "%H:%M" if then.date() == today.date() else "%b %d, %H:%M"
    return el("time", then.strftime(shape), " UTC", datetime=then.strftime("%Y-%m-%dT%H:%M:%SZ"))


def since(at: float | None, now: float) -> Markup | None:
    """`since 21:05 UTC (12 min)`."""
    return None if at is None else join("since ", moment(at, now), f" ({duration(now - at)})")


def signed_size(value: float | None) -> str:
    """Bytes with their sign: +1.2 GiB."""
    if value is None:
        return numbers.UNKNOWN
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{numbers.size(abs(value))}"


def hours(value: float | None) -> str:
    """A time to come as a person says it; what is too far away is said so."""
    if value is None:
        return numbers.UNKNOWN
    return "over a year" if value > 8766 else duration(value * 3600.0)


def hours_between(bounds: Bounded) -> str | None:
    """The interval of a time to come."""
    if bounds.low is None and bounds.high is None:
        return None
    if bounds.high is None or math.isinf(bounds.high):
        return f"at least {hours(bounds.low)}"
    return f"{hours(bounds.low or 0.0)} to {hours(bounds.high)}"


def fact(name: str, value: Child, *, tone: Tone | None = None, hint: str | None = None) -> Markup:
    """One row of a list of facts."""
    said = join(el("span", value, class_="v"), el("span", hint, class_="hint") if hint else None)
    return el("div", el("dt", name), el("dd", said, class_=tone), class_="fact")


def section(key: str, title: str, *children: Child, lead: Child = None) -> Markup:
    """One part of the page; `key` is its anchor."""
    head = el("h2", title, id=f"{key}-h")
    return el(
        "section", head, el("p", lead, class_="lead") if lead else None, *children, id=key, aria_labelledby=f"{key}-h"
    )
