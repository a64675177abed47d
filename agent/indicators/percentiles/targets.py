"""The objectives' targets as points of distributions. In: the configuration. Out: seconds per recovered family."""

from __future__ import annotations

from agent.config import Config

FOLLOWED_BY_INDICATOR = {"ttft": "ttft", "tpot": "tpot", "kv_transfer": "kv_transfer_time"}
"""Indicator of an objective -> the family whose distribution is recovered for it."""


def targets_of(config: Config) -> dict[str, tuple[float, ...]]:
    """Metric -> the objectives' targets in seconds."""
    found: dict[str, set[float]] = {}
    for objective in config.objectives:
        metric = FOLLOWED_BY_INDICATOR.get(objective.indicator)
        if metric is not None:
            found.setdefault(metric, set()).add(objective.target)
    return {metric: tuple(sorted(targets)) for metric, targets in found.items()}
