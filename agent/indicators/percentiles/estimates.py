"""Estimates as they are asked for: a pool's window comes in, its families' percentiles go out, solved once and shared.

A solve costs tens of milliseconds, so it happens only when somebody asks, and live the answer may be some seconds old
(`reuse_seconds`): several viewers and the metrics page then share it. A replay asks for exactly its own window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.indicators.percentiles.reader import Percentiles
from agent.indicators.percentiles.recovered import FOLLOWED
from agent.indicators.percentiles.windows import window_evidence
from agent.windows.interval import Interval

KEPT = 16


@dataclass(slots=True)
class _Made:
    until: float
    families: dict[str, Percentiles]


class Estimates:
    """`thresholds`: metric -> points above which the share is kept exactly (the objectives' targets)."""

    def __init__(self, thresholds: Mapping[str, tuple[float, ...]], reuse_seconds: float = 0.0) -> None:
        self._thresholds = thresholds
        self.reuse_seconds = reuse_seconds
        self._made: dict[tuple[str, int], _Made] = {}

    def of(
        self,
        pool: str,
        targets: Sequence[Sequence[Interval]],
        length_seconds: float,
        until: float,
        metrics: frozenset[str] = FOLLOWED,
    ) -> dict[str, Percentiles]:
        """Metric -> percentiles over these intervals, the window of `length_seconds` up to `until`."""
        key = (pool, round(length_seconds))
        made = self._made.get(key)
        if made is not None and 0 <= until - made.until < self.reuse_seconds:
            return made.families
        before = made.families if made is not None else {}
        evidence = window_evidence(targets, metrics, self._thresholds)
        families = {metric: Percentiles(found, before.get(metric)) for metric, found in evidence.items()}
        while len(self._made) >= KEPT:
            del self._made[next(iter(self._made))]
        self._made[key] = _Made(until, families)
        return families

    def forget(self) -> None:
        """Nothing made before is used again (the clock was set)."""
        self._made.clear()
