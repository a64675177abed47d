"""Whose times an objective speaks of: one leg, or the sum of two. In: an objective and the pools. Out: legs in PromQL.

With serial dispatch a user waits for the prefill leg, then for the decode leg. Means of the two add up. Shares do not:
how the legs of one request go together is unknown, so what is certain is, over all splits x + y of the target,

    F1(x) + F2(y) - 1  <=  share within the target  <=  F1(x) + F2(y)

(the Makarov bounds), with x and y moved to bucket edges in the direction that keeps each bound true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from agent.config import Config, Objective
from agent.export.rules.source import Source, neighbours
from agent.export.rules.vllm_names import EDGES

LEGS = {"ttft": ("e2e", "ttft"), "e2e": ("e2e", "e2e"), "queue": ("queue", "queue")}
NOT_ON_PREFILL = frozenset({"tpot", "tpot_token", "itl", "decode", "acceptance_length"})
Side = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class Leg:
    """One family of some pools."""

    indicator: str
    pools: tuple[str, ...]


def legs_of(objective: Objective, config: Config) -> tuple[Leg, ...]:
    """The legs whose sum is judged; none where no pool of the scope has the indicator."""
    if objective.scope != "system":
        pool = config.pool(objective.scope)
        if pool is None or (pool.role == "prefill" and objective.indicator in NOT_ON_PREFILL):
            return ()
        return (Leg(objective.indicator, (pool.name,)),)
    by_role = {
        role: tuple(pool.name for pool in config.pools if pool.role == role) for role in ("prefill", "decode", "both")
    }
    if objective.indicator in LEGS and config.dispatch == "serial" and by_role["prefill"] and by_role["decode"]:
        first, second = LEGS[objective.indicator]
        return Leg(first, by_role["prefill"]), Leg(second, by_role["decode"])
    order = ["decode", "both"]
    if objective.indicator == "prefill":
        order = ["prefill", "both", "decode"]
    elif objective.indicator not in NOT_ON_PREFILL:
        order = ["decode", "both", "prefill"]
    serving = next((by_role[role] for role in order if by_role[role]), ())
    return (Leg(objective.indicator, serving),) if serving else ()


def mean(legs: Iterable[Leg], source: Source, window_seconds: float) -> str | None:
    """Mean of the sum, seconds: the sum of the means."""
    parts = []
    for leg in legs:
        total = source.total(leg.indicator, leg.pools, window_seconds)
        count = source.count(leg.indicator, leg.pools, window_seconds)
        if total is None or count is None:
            return None
        parts.append(f"{total} / ({count} > 0)")
    return "\n+ ".join(parts) if parts else None


def counts(legs: Iterable[Leg], source: Source, window_seconds: float) -> list[str]:
    """The number of observations of each leg."""
    found = (source.count(leg.indicator, leg.pools, window_seconds) for leg in legs)
    return [count for count in found if count is not None]


def share_within(
    legs: tuple[Leg, ...], source: Source, window_seconds: float, target: Decimal, side: Side
) -> str | None:
    """The least (`low`) or most (`high`) that the share within the target can be; None: nothing bounds it."""
    if len(legs) == 1:
        (leg,) = legs
        edges = neighbours(leg.indicator, target)
        edge = edges.below if side == "low" else edges.above
        return None if edge is None else _share(leg, source, window_seconds, edge)
    splits = [
        f"{_share(legs[0], source, window_seconds, x)} + {_share(legs[1], source, window_seconds, y)}"
        for x, y in _splits(legs[0].indicator, legs[1].indicator, target, side)
    ]
    if side == "high":
        # No leg takes less than nothing: the sum is within the target at most as often as each leg alone is.
        alone = [share_within((leg,), source, window_seconds, target, "high") for leg in legs]
        return _extreme("min", [*filter(None, alone), *splits])
    return _extreme("max", [f"{split} - 1" for split in splits])


def edges_used(legs: tuple[Leg, ...], target: Decimal) -> list[tuple[Leg, Decimal]]:
    """The buckets that the shares are read from: rules that find none of them stay silent, so that is watched too."""
    used: dict[tuple[Leg, Decimal], None] = {}
    for leg in legs:
        for edge in neighbours(leg.indicator, target):
            if edge is not None:
                used[leg, edge] = None
    return list(used)


def _share(leg: Leg, source: Source, window_seconds: float, edge: Decimal) -> str:
    within = source.within(leg.indicator, edge, leg.pools, window_seconds)
    return f"{within} / ({source.count(leg.indicator, leg.pools, window_seconds)} > 0)"


def _splits(first: str, second: str, target: Decimal, side: Side) -> list[tuple[Decimal, Decimal]]:
    """Pairs of edges that no other pair makes needless."""
    starts = {edge for edge in EDGES[first] if edge < target} | {
        target - edge for edge in EDGES[second] if edge < target
    }
    pairs = set()
    for x in starts:
        one, two = neighbours(first, x), neighbours(second, target - x)
        a, b = (one.below, two.below) if side == "low" else (one.above, two.above)
        if a is not None and b is not None:
            pairs.add((a, b))
    sign = 1 if side == "high" else -1

    def needless(pair: tuple[Decimal, Decimal]) -> bool:
        return any(
            other != pair and sign * other[0] <= sign * pair[0] and sign * other[1] <= sign * pair[1] for other in pairs
        )

    return sorted(pair for pair in pairs if not needless(pair))


def _extreme(function: str, expressions: list[str]) -> str | None:
    """The smallest or largest of several values, which need a label to stand beside each other."""
    if len(expressions) < 2:
        return expressions[0] if expressions else None
    named = [f'label_replace({text}, "split", "{n}", "", "")' for n, text in enumerate(expressions)]
    return f"{function}(\n" + "\nor\n".join(f"  {text}" for text in named) + "\n)"
