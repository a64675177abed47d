"""Which trace to open for a bar of a histogram. In: legs. Out: for each bucket of a pool's histogram, its freshest leg.

A pool's histograms count legs, so an exemplar is a leg with that leg's own value: it always lies in the bucket that it
is shown for. Kept is the freshest leg of each narrow range of values, so memory is bounded and every page's edges fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from agent.windows.span_legs import Leg, tpot_seconds

KEPT_SECONDS = 6 * 3600.0
"""No longer than anything else of a request is kept."""
RANGE_RATIO = 1.1
LEAST_SECONDS, MOST_SECONDS = 1e-5, 1e5
"""Values outside fall into the outermost ranges: about 240 ranges for each histogram."""


class Exemplar(NamedTuple):
    """One leg's value in a histogram. `at`: when the leg ended, on pdwatch's clock."""

    at: float
    value: float
    trace: str
    request: str


class Exemplars:
    """The freshest legs by pool and latency (`ttft`, `tpot`); only those that have a trace id."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[int, Exemplar]] = {}

    def take(self, leg: Leg, at: float) -> None:
        """A sound leg. A prefill leg has one token and so no time per token."""
        span = leg.span
        if not span.trace:
            return
        self._keep(leg, "ttft", span.ttft_seconds, at)
        if leg.role != "prefill":
            self._keep(leg, "tpot", tpot_seconds(span), at)

    def of(self, pool: str, latency: str, edges: Sequence[float], now: float) -> tuple[Exemplar | None, ...]:
        """One for each bucket (le), the last without an upper edge; None where no leg is known."""
        freshest: list[Exemplar | None] = [None] * (len(edges) + 1)
        for each in self._kept.get((pool, latency), {}).values():
            if now - each.at > KEPT_SECONDS:
                continue
            bucket = next((number for number, edge in enumerate(edges) if each.value <= edge), len(edges))
            other = freshest[bucket]
            if other is None or each.at > other.at:
                freshest[bucket] = each
        return tuple(freshest)

    def shift(self, seconds: float) -> None:
        """The wall clock was set by so much."""
        for kept in self._kept.values():
            for number, each in kept.items():
                kept[number] = each._replace(at=each.at + seconds)

    def _keep(self, leg: Leg, latency: str, value: float | None, at: float) -> None:
        if value is None:
            return
        kept = self._kept.setdefault((leg.pool, latency), {})
        inside = min(max(value, LEAST_SECONDS), MOST_SECONDS)
        number = math.floor(math.log(inside) / math.log(RANGE_RATIO))
        before = kept.get(number)
        if before is None or at >= before.at:
            kept[number] = Exemplar(at, value, leg.span.trace, leg.span.request)
