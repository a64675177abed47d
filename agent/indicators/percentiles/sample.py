"""The evidence in the form the estimate works on: few enough classes that a solve is cheap.

In: `Evidence`. Out: exact points; clumps (records whose observations share a bucket) with means gathered to a third of
their spread; mixed records (spanning buckets), weighted up where only a sample of them was kept; loose observations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from agent.indicators.percentiles.cells import Group
from agent.indicators.percentiles.evidence import Evidence, lot

STEPS_PER_DEVIATION = 3.0
MIXED_RECORDS = 112


class Clump(NamedTuple):
    """``weight`` records of ``size`` observations in ``bucket`` with the mean ``mean``."""

    bucket: int
    size: float
    mean: float
    weight: float


class Mixed(NamedTuple):
    """``weight`` records with observations in several buckets: (bucket, count, least sum, greatest sum) each."""

    parts: tuple[tuple[int, int, float, float], ...]
    total: float
    weight: float


class Sample(NamedTuple):
    """Everything the estimate is conditioned on."""

    points: list[tuple[int, float, float]]  # bucket, value, weight
    clumps: list[Clump]
    mixed: list[Mixed]
    loose: list[float]  # per bucket, observations of which only the bucket is known


def draw(evidence: Evidence) -> Sample:
    """The sample of the estimate."""
    points: list[tuple[int, float, float]] = []
    by_size: dict[tuple[int, int], list[Group]] = {}
    for group in evidence.groups.groups():
        if group.size == 1 or group.observations == 1:
            points.append((group.bucket, group.sum_low / group.observations, float(group.observations)))
        else:
            by_size.setdefault((group.bucket, group.size or round(group.observations / group.records)), []).append(
                group
            )
    clumps: list[Clump] = []
    for (bucket, _), groups in by_size.items():
        clumps += _gather(bucket, groups)
    loose = [float(count) for count in evidence.unsummed]
    mixed: list[Mixed] = []
    kept = [0] * len(loose)
    for key in sorted(evidence.whole, key=lot)[:MIXED_RECORDS]:
        times = evidence.whole[key]
        parts = tuple(evidence.ranges(key))
        mixed.append(Mixed(parts, key[0], float(times)))
        for bucket, count, _, _ in parts:
            kept[bucket] += count * times
    if mixed:
        scale = sum(evidence.spanned) / sum(kept)
        mixed = [Mixed(m.parts, m.total, m.weight * scale) for m in mixed]
    return Sample(points, clumps, mixed, loose)


def _gather(bucket: int, groups: list[Group]) -> list[Clump]:
    """Join records of nearly the same mean."""
    records = sum(g.records for g in groups)
    means = [g.sum_low / g.observations for g in groups]
    centre = sum(g.records * m for g, m in zip(groups, means, strict=True)) / records
    spread = math.sqrt(sum(g.records * (m - centre) ** 2 for g, m in zip(groups, means, strict=True)) / records)
    step = spread / STEPS_PER_DEVIATION or 1.0
    joined: dict[int, list[float]] = {}
    for group, mean in zip(groups, means, strict=True):
        held = joined.setdefault(math.floor((mean - centre) / step), [0.0, 0.0, 0.0])
        held[0] += group.records
        held[1] += group.observations
        held[2] += group.sum_low
    return [
        Clump(bucket, observations / records, total / observations, records)
        for records, observations, total in joined.values()
    ]
