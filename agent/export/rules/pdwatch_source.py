"""pdwatch's cumulative histograms as a source of rules. In: the configuration and the catalogue. Out: PromQL.

They are pools' sums already, without the zeros of one-token requests. Those with the servers' own edges say what is
certain; the recovered ones, on fine edges with every target among them, say what is likely.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from agent.catalogue import CATALOGUE, HISTOGRAMS, LATENCIES, PREFIX, RECOVERED
from agent.config import Config
from agent.export.rules.promql import le_matcher, matchers, span


class PdwatchSource:
    """PromQL over the series of one pdwatch, or of several replicas that watch the same."""

    word = "pdwatch"

    def __init__(self, config: Config) -> None:
        self._deployment = config.deployment

    def selector(self, **labels: str | Iterable[str] | None) -> str:
        """`{deployment="d",...}`, or "" when there is nothing to select by."""
        text = matchers(deployment=self._deployment, **labels)
        return "{" + text + "}" if text else ""

    def total(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str | None:
        return self._summed(indicator, "sum", pools, window_seconds)

    def count(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str | None:
        return self._summed(indicator, "count", pools, window_seconds)

    def within(self, indicator: str, edge: Decimal, pools: Iterable[str], window_seconds: float) -> str | None:
        return self._summed(indicator, "bucket", pools, window_seconds, le_matcher(edge))

    def estimated(
        self, indicator: str, target: Decimal, pools: Iterable[str], window_seconds: float
    ) -> tuple[str, str] | None:
        if indicator not in RECOVERED:
            return None
        name = f"{PREFIX}recovered_{LATENCIES[indicator][0]}_seconds"
        parts = [
            self._over(name, part, pools, window_seconds, more)
            for part, more in (("bucket", le_matcher(target)), ("count", ""))
        ]
        return parts[0], parts[1]

    def buckets(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str:
        """All buckets, the finest there are, merged: what a quantile may be taken of."""
        word = "recovered_" if indicator in RECOVERED else ""
        metric = CATALOGUE[f"{PREFIX}{word}{LATENCIES[indicator][0]}_seconds"]
        series = f"{metric.name}_bucket{self.selector(pool=list(pools))}"
        return f"sum by (le) (max by (pool, le) (increase({series}[{span(window_seconds)}])))"

    def _summed(
        self, indicator: str, part: str, pools: Iterable[str], window_seconds: float, more: str = ""
    ) -> str | None:
        if indicator not in HISTOGRAMS:
            return None
        return self._over(f"{PREFIX}{LATENCIES[indicator][0]}_seconds", part, pools, window_seconds, more)

    def _over(self, name: str, part: str, pools: Iterable[str], window_seconds: float, more: str) -> str:
        metric = CATALOGUE[name]
        labels = ",".join(filter(None, [matchers(deployment=self._deployment, pool=list(pools)), more]))
        # Replicas see the same requests: the one that saw most of a pool stands for it, two are never added.
        by_replica = f"sum by (pool, instance) (increase({metric.name}_{part}{{{labels}}}[{span(window_seconds)}]))"
        return f"sum(max by (pool) ({by_replica}))"
