"""The fine bins on which the distribution inside the buckets is estimated, and the coefficients that shape it.

In: edges, counts per bucket and the highest value possible. Out: bins (uniform inside a bucket), coefficients at knots
over the logarithm of the value, and the roughness penalty on them. The penalty is on the third derivative of the
log-density over log(value): what it does not punish at all is a log-normal, so that is what little evidence leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from agent.indicators.percentiles.linalg import Matrix

EMPTY_BINS = 4
LEAST_BINS = 6
MOST_BINS = 44
BINS_PER_KNOT = 2.0
FINEST_LOG_STEP = 0.012
MOST_KNOTS = 30
FIRST_BUCKET_DEPTH = 16.0


class Grid:
    """Bins over the occupied buckets and their neighbours.

    ``x`` centres, ``width`` widths, ``log_base`` log of the width relative to the value; ``slices`` bucket ->
    (first bin, last bin + 1); ``knot`` and ``part``: bin i's log-density is (1 - part) * coef[knot] + part *
    coef[knot + 1].
    """

    def __init__(self, edges: Sequence[float], counts: Sequence[int], ceiling: float) -> None:
        total = sum(counts)
        last = len(edges)
        self.open_bucket = last
        occupied = [b for b, count in enumerate(counts) if count]
        first_shown, last_shown = max(occupied[0] - 1, 0), min(occupied[-1] + 1, last - (counts[-1] == 0))
        self.x: list[float] = []
        self.width: list[float] = []
        self.slices: dict[int, tuple[int, int]] = {}
        self.limits: dict[int, tuple[float, float]] = {}
        wanted: list[tuple[float, float, int]] = []
        for bucket in range(first_shown, last_shown + 1):
            low = edges[bucket - 1] if bucket else 0.0
            high = edges[bucket] if bucket < last else max(min(ceiling, 64.0 * low), 1.05 * low)
            # In steps of half a doubling, so that the bins stay the same from one readout to the next.
            share = 2.0 ** (round(2.0 * math.log2(counts[bucket] / total)) / 2.0) if counts[bucket] else 0.0
            span = math.log(high / max(low, high / FIRST_BUCKET_DEPTH))
            bins = EMPTY_BINS
            if counts[bucket]:
                bins = int(min(LEAST_BINS + MOST_BINS * share**0.7, MOST_BINS, 2 + span / FINEST_LOG_STEP))
            start = len(self.x)
            if bucket < last:
                step = (high - low) / bins
                ends = [low + i * step for i in range(bins)] + [high]
            else:
                ends = [low * (high / low) ** (i / bins) for i in range(bins + 1)]
            self.x += [0.5 * (a + b) for a, b in pairwise(ends)]
            self.width += [b - a for a, b in pairwise(ends)]
            self.slices[bucket] = (start, len(self.x))
            self.limits[bucket] = (low, high)
            wanted.append((max(low, high / FIRST_BUCKET_DEPTH), high, bins))
        self.size = len(self.x)
        scale = min(1.0, MOST_KNOTS / sum(max(1.0, bins / BINS_PER_KNOT) for _, _, bins in wanted))
        self.knots: list[float] = []
        for low, high, bins in wanted:
            pieces = max(1, round(scale * bins / BINS_PER_KNOT))
            start_log, step = math.log(low), math.log(high / low) / pieces
            self.knots += [start_log + i * step for i in range(pieces)]
        self.knots.append(math.log(wanted[-1][1]))
        while len(self.knots) < 5:
            self.knots.append(self.knots[-1] + 0.5)
        self.log_base: list[float] = []
        self.knot: list[int] = []
        self.part: list[float] = []
        at = 0
        for x, width in zip(self.x, self.width, strict=True):
            log_x = math.log(x)
            while at < len(self.knots) - 2 and log_x > self.knots[at + 1]:
                at += 1
            self.knot.append(at)
            part = (log_x - self.knots[at]) / (self.knots[at + 1] - self.knots[at])
            self.part.append(min(max(part, 0.0), 1.0))
            self.log_base.append(math.log(width) - log_x)

    def third_differences(self) -> Matrix:
        """Rows of four, the i-th on coefficients i .. i + 3: their squares add up to the integral of the squared third
        derivative of the log-density over log(value) (third divided differences).
        """
        rows: Matrix = []
        for i in range(len(self.knots) - 3):
            t = self.knots[i : i + 4]
            root = math.sqrt((t[3] - t[0]) / 3.0)
            rows.append([6.0 * root / math.prod(t[k] - t[j] for j in range(4) if j != k) for k in range(4)])
        return rows

    def log_density(self, coefficients: Sequence[float]) -> list[float]:
        """Log of each bin's (unnormalised) probability."""
        return [
            base + coefficients[k] * (1.0 - part) + coefficients[k + 1] * part
            for base, k, part in zip(self.log_base, self.knot, self.part, strict=True)
        ]

    def project(self, weights: Sequence[float], first: int = 0) -> list[float]:
        """B' weights: per coefficient, the weights of the bins from ``first`` on."""
        out = [0.0] * len(self.knots)
        for i, weight in enumerate(weights, first):
            k, part = self.knot[i], self.part[i]
            moved = weight * part
            out[k] += weight - moved
            out[k + 1] += moved
        return out
