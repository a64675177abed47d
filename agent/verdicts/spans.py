"""Spans that contradict the histograms: both of one window come in, a problem per pool goes out.

Both are vLLM's own: when nearly all legs came as spans and the two still differ, one of them is not what it seems
(spans of another deployment, a target taken for another, a sampled trace, a page that counts twice).
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.indicators.requests import Disagreement
from agent.model import Problem
from agent.verdicts.wording import milliseconds, plural


def span_problems(found: Sequence[Disagreement], since: float) -> list[Problem]:
    """One problem per pool, which names the first of its disagreements and counts the others."""
    problems = []
    for pool in dict.fromkeys(each.pool for each in found):
        first, *others = [each for each in found if each.pool == pool]
        high = "" if first.high is None else f" to {milliseconds(first.high)}"
        text = (
            f"the {first.statistic} of {first.latency} in pool {pool} is {milliseconds(first.spans)} by "
            f"{first.count} spans, and {milliseconds(first.low)}{high} by the histograms, though both saw the same legs"
        )
        if others:
            text += f"; so it is with {plural(len(others), 'other figure')}"
        evidence: dict[str, float | str | None] = {
            "latency": first.latency,
            "statistic": first.statistic,
            "spans_seconds": first.spans,
            "histogram_low_seconds": first.low,
            "histogram_high_seconds": first.high,
            "count": float(first.count),
        }
        problems.append(Problem("spans_disagree", "", since, text, pool=pool, evidence=evidence))
    return problems
