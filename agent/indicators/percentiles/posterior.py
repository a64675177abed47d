"""Where the observations of each record lie in its buckets, given their sum and a distribution over the fine bins.

In: a `Sample`, a `Grid` and the bins' probabilities. Out: the expected number of observations per bin.
For k observations in one bucket with the mean m, one of them has the density p(x) g(k m - x), g being the density
of the other k - 1's sum: by convolution for k up to 4, else by the saddlepoint form p(x) exp(t x - (x - m)^2 / (2
(k - 1) s^2)), whose tilt t is chosen so that the mean is m (conditioning on a sum is blind to exponential tilting,
so this is exact to first order wherever m lies). A record that spans buckets has one tilt for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from agent.indicators.percentiles.grid import Grid
from agent.indicators.percentiles.sample import Clump, Mixed, Sample

EXACT_CONVOLUTION = 4
TILT_STEPS = 6
FAR = 50.0


class Posterior:
    """The E-step for one sample on one grid; tilts are remembered from one call to the next."""

    def __init__(self, sample: Sample, grid: Grid, correlation: dict[int, float] | None = None) -> None:
        self.sample = sample
        self.grid = grid
        # Bucket -> correlation of observations of one record (see `density`).
        self.correlation = correlation or {}
        self.tilts: dict[int, float] = {}
        # Values in units of their bucket's width, so that tilts are of order one.
        self._u: dict[int, list[float]] = {}
        for bucket, (start, stop) in grid.slices.items():
            low, high = grid.limits[bucket]
            self._u[bucket] = [(x - low) / (high - low) for x in grid.x[start:stop]]
        self.points = [0.0] * grid.size
        for bucket, x, weight in sample.points:
            self._spread_point(bucket, x, weight)
        self.totals = {bucket: sum(self.points[a:b]) + sample.loose[bucket] for bucket, (a, b) in grid.slices.items()}
        for clump in sample.clumps:
            self.totals[clump.bucket] += clump.size * clump.weight
        for record in sample.mixed:
            for bucket, count, _, _ in record.parts:
                self.totals[bucket] += count * record.weight

    def expect(self, p: Sequence[float], effective: bool = False) -> tuple[list[float], float]:
        """Expected observations per bin, exact points apart, and the log-likelihood of everything.

        ``effective``: correlated observations count only for as many independent ones as they are worth.
        """
        others = {bucket: [0.0] * (stop - start) for bucket, (start, stop) in self.grid.slices.items()}
        inside: dict[int, list[float]] = {}
        likelihood = 0.0
        for bucket, (start, stop) in self.grid.slices.items():
            here = p[start:stop]
            total = sum(here) or 1e-300
            inside[bucket] = [value / total for value in here]
            likelihood += self.totals[bucket] * math.log(total)
            likelihood += sum(
                [w * math.log(v + 1e-300) for w, v in zip(self.points[start:stop], inside[bucket], strict=True) if w]
            )
        if not effective:
            for bucket, count in enumerate(self.sample.loose):
                if count:
                    self._add(others, bucket, inside[bucket], count)
        powers: dict[int, list[list[float]]] = {}
        for number, clump in enumerate(self.sample.clumps):
            q = inside[clump.bucket]
            size = self.worth(clump)
            if clump.size == size <= EXACT_CONVOLUTION and clump.bucket != self.grid.open_bucket:
                if clump.bucket not in powers:
                    powers[clump.bucket] = _powers(q)
                weights = self._convolved(clump, q, powers[clump.bucket])
                total = sum(weights)
                likelihood += clump.weight * math.log(total + 1e-300)
            else:
                weights, log_likelihood = self._tilted(number, clump, q, size)
                likelihood += clump.weight * log_likelihood
                total = sum(weights)
            if total <= 0.0:
                weights, total = q, 1.0
            self._add(others, clump.bucket, weights, clump.weight * (size if effective else clump.size) / total)
        for number, record in enumerate(self.sample.mixed, len(self.sample.clumps)):
            likelihood += record.weight * self._add_mixed(others, inside, record, number)
        return [value for here in others.values() for value in here], likelihood

    def worth(self, clump: Clump) -> float:
        """How many independent observations the clump's records are worth: k / (1 + (k - 1) correlation)."""
        correlation = self.correlation.get(clump.bucket, 0.0)
        return clump.size / (1.0 + (clump.size - 1.0) * correlation) if correlation else clump.size

    def _add(self, into: dict[int, list[float]], bucket: int, weights: Sequence[float], scale: float) -> None:
        into[bucket] = [held + scale * weight for held, weight in zip(into[bucket], weights, strict=False)]

    def _spread_point(self, bucket: int, x: float, weight: float) -> None:
        """An exact value between two centres counts for both."""
        start, stop = self.grid.slices[bucket]
        centres = self.grid.x
        i = start
        while i < stop - 1 and centres[i + 1] <= x:
            i += 1
        part = 0.0
        if i < stop - 1:
            part = min(max((x - centres[i]) / (centres[i + 1] - centres[i]), 0.0), 1.0)
        self.points[i] += weight * (1.0 - part)
        if part:
            self.points[i + 1] += weight * part

    def _convolved(self, clump: Clump, q: list[float], powers: list[list[float]]) -> list[float]:
        low, high = self.grid.limits[clump.bucket]
        bins = len(q)
        size = round(clump.size)
        rest = powers[size - 1]  # padded by `bins` zeros on both sides
        at = size * ((clump.mean - low) * bins / (high - low) - 0.5)
        at = min(max(at, 0.0), size * (bins - 1.0))
        whole = math.floor(at)
        part = at - whole
        first = whole + bins
        # The rest's index for bin i is `at` - i, so the slices run backwards.
        here = rest[first - bins + 1 : first + 1][::-1]
        after = rest[first - bins + 2 : first + 2][::-1]
        keep = 1.0 - part
        return [a * (keep * b + part * c) for a, b, c in zip(q, here, after, strict=False)]

    def _tilted(self, number: int, clump: Clump, q: list[float], size: float) -> tuple[list[float], float]:
        low, high = self.grid.limits[clump.bucket]
        u = self._u[clump.bucket]
        m = (clump.mean - low) / (high - low)
        d = [value - m for value in u]
        tilt = self.tilts.get(number, 0.0)
        variance = total = 1.0
        off = 0.0
        weights = q
        shift = 0.0
        floor = (0.3 / len(q)) ** 2
        for turn in range(TILT_STEPS):
            weights, shift = _tilt(q, d, tilt)
            total = sum(weights)
            if total <= 0.0 or not math.isfinite(total):
                return _nearest(d), -FAR * size
            moment = list(map(mul, weights, d))
            off = sum(moment) / total
            variance = max(sum(map(mul, moment, d)) / total - off * off, floor)
            if abs(off) < 0.02 * math.sqrt(variance) or turn == TILT_STEPS - 1:
                break
            limit = 2.0 / math.sqrt(variance)
            tilt -= max(min(off / variance, limit), -limit)
        self.tilts[number] = tilt
        # Short of the right tilt the exponent is too high, by about this much.
        likelihood = size * (math.log(total) + shift - min(0.5 * off * off / variance, FAR)) - 0.5 * math.log(variance)
        precision = -0.5 / (variance * max(size - 1.0, 0.02))
        exp = math.exp
        weights = [w * exp(x * x * precision) for w, x in zip(weights, d, strict=True)]
        total = sum(weights)
        if total <= 0.0:
            return _nearest(d), likelihood
        moment = list(map(mul, weights, d))
        off = sum(moment) / total
        variance = max(sum(map(mul, moment, d)) / total - off * off, floor)
        if abs(off) > 0.02 * math.sqrt(variance):
            weights, _ = _tilt(weights, d, -off / variance)
        return weights, likelihood

    def _add_mixed(
        self, into: dict[int, list[float]], inside: dict[int, list[float]], record: Mixed, number: int
    ) -> float:
        """A record over several buckets: one tilt, and per bucket the others' spread. Returns its log-likelihood."""
        limits, correlation = self.grid.limits, self.correlation
        scale = max([limits[part[0]][1] - limits[part[0]][0] for part in record.parts])
        tilt = self.tilts.get(number, 0.0)
        found: list[tuple[float, float, float, list[float]]] = []
        whole = likelihood = step = off = 0.0
        for turn in range(TILT_STEPS):
            found = []
            likelihood = whole = 0.0
            off = -record.total
            for bucket, count, _least, _most in record.parts:
                low, high = limits[bucket]
                width = (high - low) / scale
                d = self._u[bucket]
                alike = 1.0 + (count - 1) * correlation[bucket] if bucket in correlation else 1.0
                weights, shift = _tilt(inside[bucket], d, tilt * alike * width)
                total = sum(weights) or 1e-300
                moment = list(map(mul, weights, d))
                mean = sum(moment) / total
                variance = max(sum(map(mul, moment, d)) / total - mean * mean, 1e-6)
                likelihood += count * ((math.log(total) + shift) / alike + tilt * low / scale)
                off += count * (low + mean * (high - low))
                whole += count * alike * variance * width * width
                found.append((mean, variance, alike, weights))
            off /= scale
            step = max(min(-off / whole, 3.0 / math.sqrt(whole)), -3.0 / math.sqrt(whole))
            if abs(off) < 0.2 * math.sqrt(whole) or turn == TILT_STEPS - 1:
                break
            tilt = max(min(tilt + step, 60.0), -60.0)
        self.tilts[number] = max(min(tilt + step, 60.0), -60.0)
        for (mean, variance, alike, weights), (bucket, count, least, most) in zip(found, record.parts, strict=True):
            low, high = limits[bucket]
            width = (high - low) / scale
            # Of the mean of the bucket's own observations: what the others leave open; the rest of the spread is
            # their own.
            rest = (whole / (width * width) - variance * alike) / alike
            slope = step * alike * width
            d = self._u[bucket]
            precision = -0.5 / max(rest, 0.02 * variance)
            centre = mean + slope * variance
            exp = math.exp
            weights = [
                w * exp((v - centre) * (slope + precision * (v - centre))) for w, v in zip(weights, d, strict=True)
            ]
            top = (most - count * low) / (high - low)
            bottom = 1.0 - (count * high - least) / (high - low)
            if top < 1.0 or bottom > 0.0:
                half = 0.5 / len(d)
                top, bottom = top + half, bottom - half
                weights = [w if bottom <= v <= top else 0.0 for w, v in zip(weights, d, strict=True)]
            total = sum(weights)
            if total <= 0.0:
                weights = inside[bucket]
                total = sum(weights) or 1.0
            self._add(into, bucket, weights, record.weight * count / total)
        short = min(0.5 * off * off / whole, FAR * len(record.parts))
        return likelihood - short - tilt * record.total / scale - 0.5 * math.log(whole)


def _tilt(q: Sequence[float], d: Sequence[float], tilt: float) -> tuple[list[float], float]:
    """Q exp(tilt d) up to a factor, and the factor's logarithm."""
    if tilt == 0.0:
        return list(q), 0.0
    exp = math.exp
    top = max(tilt * d[0], tilt * d[-1])
    return [w * exp(tilt * x - top) for w, x in zip(q, d, strict=True)], top


def _nearest(d: Sequence[float]) -> list[float]:
    best = min(range(len(d)), key=lambda i: abs(d[i]))
    return [float(i == best) for i in range(len(d))]


def _powers(q: list[float]) -> list[list[float]]:
    """The distribution of the sum of 1, 2, 3 draws, each padded with len(q) zeros on both sides; [0] is unused."""
    bins = len(q)
    pad = [0.0] * bins
    out: list[list[float]] = [[], [*pad, *q, *pad, 0.0]]
    backwards = q[::-1]
    for _ in range(EXACT_CONVOLUTION - 2):
        last = out[-1]
        longer = len(last) - 2 * bins - 1 + bins - 1
        new = [sum(map(mul, last[t + 1 : t + 1 + bins], backwards)) for t in range(longer)]
        out.append([*pad, *new, *pad, 0.0])
    return out
