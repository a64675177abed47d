"""Evidence of windows: intervals of a pool's targets come in, one evidence per latency family goes out.

Exact for any window whose intervals are kept: each engine's steps are paired into whole records in time order and then
added up. Targets with different edges cannot share an evidence; then buckets alone must do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.indicators.percentiles.evidence import Evidence
from agent.indicators.percentiles.pairing import Pairing, feed
from agent.windows.interval import Interval

Step = tuple[dict[int, int], float | None]
"""What one histogram gained in one interval: bucket -> observations (a correction may be negative), and the sum."""


def window_evidence(
    targets: Iterable[Sequence[Interval]], metrics: frozenset[str], thresholds: Mapping[str, tuple[float, ...]]
) -> dict[str, Evidence]:
    """Metric -> evidence over the intervals of all targets (each target's in time order).

    A metric whose targets have different edges, or that none of them has, is left out.
    """
    found: dict[str, Evidence] = {}
    mixed: set[str] = set()
    for intervals in targets:
        for (_, metric, edges), steps in _steps(intervals, metrics).items():
            evidence = found.get(metric)
            if evidence is None:
                evidence = found[metric] = Evidence(edges, thresholds.get(metric, ()))
            elif evidence.edges != edges:
                mixed.add(metric)
                continue
            pairing = Pairing(edges)
            for counts, total in without_negatives(steps):
                feed(evidence, pairing.push(counts, total))
            feed(evidence, pairing.flush())
    return {metric: evidence for metric, evidence in found.items() if metric not in mixed}


def without_negatives(steps: Sequence[Step]) -> list[Step]:
    """Steps in which a correction of a neighbouring page is joined with the step that it corrects.

    What is left over at the end of the window corrects a step outside it and is dropped.
    """
    joined: list[Step] = []
    for counts, total in steps:
        if joined and (min(counts.values(), default=0) < 0 or min(joined[-1][0].values(), default=0) < 0):
            before, total_before = joined.pop()
            counts = {bucket: before.get(bucket, 0) + counts.get(bucket, 0) for bucket in {*before, *counts}}
            total = None if total is None or total_before is None else total + total_before
        joined.append((counts, total))
    return [({bucket: count for bucket, count in counts.items() if count > 0}, total) for counts, total in joined]


def interval_steps(interval: Interval, metrics: frozenset[str]) -> Iterable[tuple[str, str, tuple[float, ...], Step]]:
    """(engine, metric, edges, step) of each of the metrics that moved in one interval."""
    layout = interval.layout
    at = 0
    bucket_ids, bucket_steps = interval.bucket_ids, interval.bucket_steps
    for position, total, fill in zip(
        interval.histogram_ids, interval.histogram_totals, interval.histogram_fills, strict=True
    ):
        key = layout.histograms[position]
        if key.series.metric in metrics:
            counts = {bucket_ids[entry]: round(bucket_steps[entry]) for entry in range(at, at + fill)}
            yield key.series.engine, key.series.metric, key.edges, (counts, total if total == total else None)
        at += fill


def _steps(
    intervals: Sequence[Interval], metrics: frozenset[str]
) -> dict[tuple[str, str, tuple[float, ...]], list[Step]]:
    steps: dict[tuple[str, str, tuple[float, ...]], list[Step]] = {}
    for interval in intervals:
        for engine, metric, edges, step in interval_steps(interval, metrics):
            steps.setdefault((engine, metric, edges), []).append(step)
    return steps
