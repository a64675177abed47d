"""Where the numbers of a rule come from. In: an indicator, pools, a window. Out: PromQL of increases over pools.

Two sources give the same three numbers, so that objectives and burn rates are one arithmetic over either: vLLM's own
pages, and pdwatch's cumulative histograms. Increases are taken per series before anything is added, so that one
engine's restart is not hidden in another's growth; buckets are added before a share is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from agent.export.rules.vllm_names import EDGES


class Source(Protocol):
    """`word` begins the names of what is recorded from it. None: the source has no such number."""

    word: str

    def total(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str | None:
        """Sum of all observations, seconds."""

    def count(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str | None:
        """Number of observations."""

    def within(self, indicator: str, edge: Decimal, pools: Iterable[str], window_seconds: float) -> str | None:
        """Number of observations at or below one bucket edge."""

    def estimated(
        self, indicator: str, target: Decimal, pools: Iterable[str], window_seconds: float
    ) -> tuple[str, str] | None:
        """Best estimates: observations at or below the target, and all; None where only bounds are known."""


class Neighbours(NamedTuple):
    """The bucket edges around a target: the largest at or below it, the smallest at or above it."""

    below: Decimal | None
    above: Decimal | None


def neighbours(indicator: str, target: Decimal, edges: Sequence[Decimal] | None = None) -> Neighbours:
    """Where a target lies among the bucket edges; both are the target itself where it is an edge."""
    known = EDGES[indicator] if edges is None else edges
    return Neighbours(
        max((edge for edge in known if edge <= target), default=None),
        min((edge for edge in known if edge >= target), default=None),
    )
