"""How alike the observations of one record are: the between-record part of the spread.

In: a `Sample` and the squared steps between an engine's successive records. Out: per bucket, a correlation in [0, 1).
Requests that finish together were often slow together (a level that drifts, a slow engine). Were their values taken
for independent draws, the spread of the records' means would be blown up k-fold into a far too wide distribution.
With the correlation c, the mean of k has the variance V (c + (1 - c) / k), one value has V, and the scaled squared
step between successive records shows V (1 - c). Records of k such values are worth k / (1 + (k - 1) c) independent
ones (Kish's design effect).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.indicators.percentiles.sample import Sample

TRIED = (0.0, 0.01, 0.02, 0.035, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94)
# Log-likelihood by which a correlation must beat independence: from all there is, and from the sizes of records alone.
SIGNIFICANT = 2.5
SIGNIFICANT_ALONE = 4.5
# No smooth distribution inside a bucket is wider than this part of its squared width (uniform: 1/12, two ends: 1/4).
WIDEST = 1.0 / 8.0
# Successive steps share a record, so they are worth less than independent ones.
STEP_WORTH = 2.0 / 3.0
# A record over several buckets speaks for the one that holds most of it, where the rest leaves its mean nearly
# certain.
MAIN_PART = 0.8
NARROW = 0.05


def correlations(
    sample: Sample, steps: Mapping[int, Sequence[float]], limits: Mapping[int, tuple[float, float]]
) -> dict[int, float]:
    """Bucket -> correlation, only where the data contradict independence. ``limits``: bucket -> (low, high)."""
    found: dict[int, float] = {}
    seen: dict[int, list[tuple[float, float, float]]] = {}
    for clump in sample.clumps:
        seen.setdefault(clump.bucket, []).append((clump.weight, clump.size, clump.mean))
    for record in sample.mixed:
        size = sum([part[1] for part in record.parts])
        for bucket, count, least, most in record.parts:
            low, high = limits[bucket]
            if count >= MAIN_PART * size and most - least < NARROW * count * (high - low):
                seen.setdefault(bucket, []).append((record.weight, count, 0.5 * (least + most) / count))
    for bucket, value, weight in sample.points:
        if bucket in seen:
            seen[bucket].append((weight, 1.0, value))
    for bucket, records in seen.items():
        total = sum([weight * size for weight, size, _ in records])
        centre = sum([weight * size * mean for weight, size, mean in records]) / total
        # (weight, size, squared deviation); the size of a step is written as 0.
        parts = [(weight, size, (mean - centre) ** 2) for weight, size, mean in records]
        low, high = limits[bucket]
        widest = WIDEST * (high - low) ** 2
        best = _best(parts, widest, SIGNIFICANT_ALONE)
        pairs, squares = steps.get(bucket, (0.0, 0.0))
        if pairs:
            # A level that changes from record to record widens the steps, so they can only speak for correlation.
            best = max(best, _best([*parts, (STEP_WORTH * pairs, 0.0, squares / pairs)], widest, SIGNIFICANT))
        if best > 0.0:
            found[bucket] = best
    return found


def _best(parts: Sequence[tuple[float, float, float]], widest: float, significant: float) -> float:
    """The mean of the correlations that fit, weighed by their likelihood; 0 where independence fits nearly as well."""
    fits = [_log_likelihood(parts, tried, widest) for tried in TRIED]
    top = max(fits)
    if top < fits[0] + significant:
        return 0.0
    weights = [math.exp(fit - top) for fit in fits]
    return sum([w * tried for w, tried in zip(weights, TRIED, strict=True)]) / sum(weights)


def _log_likelihood(parts: Sequence[tuple[float, float, float]], correlation: float, widest: float) -> float:
    """Normal log-likelihood of the squared deviations at the best variance not above ``widest``."""
    own = 1.0 - correlation
    scales = [correlation + own / size if size else own for _, size, _ in parts]
    weight = sum([w for w, _, _ in parts])
    squares = sum([w * square / scale for (w, _, square), scale in zip(parts, scales, strict=True)])
    variance = min(max(squares / weight, 1e-12 * widest), widest)
    return -0.5 * (
        sum([w * math.log(scale) for (w, _, _), scale in zip(parts, scales, strict=True)])
        + weight * math.log(variance)
        + squares / variance
    )
