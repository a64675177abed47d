"""Adapter of the percentile benchmark: what a scraper sees goes in, estimates with bounds come out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.indicators.percentiles.evidence import Evidence
from agent.indicators.percentiles.pairing import Pairing, feed
from agent.indicators.percentiles.reader import Percentiles

# The targets of the product's own default objectives: TPOT 20 ms, TTFT 2.5 s.
THRESHOLDS = (0.020, 2.5)


class Adapter:
    """One family's estimator in the shape the benchmark asks for: seconds, and inf where nothing bounds a value."""

    def __init__(self, edges: Sequence[float]) -> None:
        self.evidence = Evidence(edges, THRESHOLDS)
        self.pairings: dict[str, Pairing] = {}
        self._read: Percentiles | None = None

    def update(self, engine: str, _t: float, counts: list[int], total: float) -> None:
        """Increases since that engine's last scrape."""
        pairing = self.pairings.get(engine)
        if pairing is None:
            pairing = self.pairings[engine] = Pairing(self.evidence.edges)
        records = pairing.push(counts, total)
        if records:
            feed(self.evidence, records)
        self._read = None

    def quantile(self, q: float) -> tuple[float, ...]:
        """(value, low, high, likely low, likely high)."""
        return _numbers(self._percentiles().quantile(q))

    def share_above(self, x: float) -> tuple[float, ...]:
        """(value, low, high, likely low, likely high)."""
        return _numbers(self._percentiles().share_above(x))

    def _percentiles(self) -> Percentiles:
        if self._read is None:
            for pairing in self.pairings.values():
                feed(self.evidence, pairing.flush())
            self._read = Percentiles(self.evidence)
        return self._read


def _numbers(estimate: Sequence[float | None] | None) -> tuple[float, ...]:
    if estimate is None:
        return (math.nan,) * 5
    return tuple(math.inf if value is None else value for value in estimate)


def make(edges: Sequence[float]) -> Adapter:
    """What the benchmark calls once per case."""
    return Adapter(edges)
