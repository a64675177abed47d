"""What a sample tells about the coefficients of the log-density: the information matrix.

In: a `Posterior` (sample and grid) and the bins' probabilities. Out: the matrix, and per bucket what it is made of.
Of k independent draws whose sum is known, the part of the information that survives about the r-th orthogonal
polynomial of the value is k^(1-r): all of it about the mean, 1/k of it about the variance, and so on (exact for a
normal distribution, whose polynomials are Hermite's; close enough elsewhere for a Newton step and an interval). A
record over several buckets tells about the buckets' means together, and about their variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from agent.indicators.percentiles import linalg
from agent.indicators.percentiles.grid import Grid
from agent.indicators.percentiles.posterior import Posterior

ORDERS = 5


class Information:
    """``matrix`` is the lower triangle. Per bucket: ``polynomials`` (orthonormal, of the value, on its bins),
    ``shape`` (the coefficients' covariance with them) and ``told`` (how many observations' worth the sums tell
    about each).

    ``complete``: what the sample would tell if every observation were an exact point (with that, a Newton step is
    one of expectation maximisation). ``flat``: observations spread evenly over the bins, which keep the matrix
    regular.
    """

    def __init__(self, posterior: Posterior, p: Sequence[float], flat: float, complete: bool = False) -> None:
        self._posterior = posterior
        self._complete = complete
        self.polynomials: dict[int, list[list[float]]] = {}
        self.shape: dict[int, list[list[float]]] = {}
        self.told: dict[int, list[float]] = {} if complete else self._worth()
        self._spread: dict[int, float] = {}
        self.matrix = self._build(p, flat)

    def _build(self, p: Sequence[float], flat: float) -> linalg.Matrix:
        posterior, grid, complete = self._posterior, self._posterior.grid, self._complete
        total = sum(posterior.totals.values()) + flat
        overall = grid.project(p)
        directions: list[list[float]] = []
        inside = [0.0] * grid.size
        less: list[list[float]] = []
        for bucket, (start, stop) in grid.slices.items():
            mass = sum(p[start:stop])
            if mass <= 0.0:
                continue
            q = [value / mass for value in p[start:stop]]
            mean = grid.project(q, start)
            # Which bucket: known for every observation.
            directions.append(_scaled([a - b for a, b in zip(mean, overall, strict=True)], total * mass))
            # Where in the bucket: known for points.
            exact = posterior.totals[bucket] if complete else sum(posterior.points[start:stop])
            exact += flat * (stop - start) / grid.size
            inside[start:stop] = [exact * value for value in q]
            less.append(_scaled(mean, exact))
            if posterior.totals[bucket] > 0 and not complete:
                self.shape[bucket], self._spread[bucket], self.polynomials[bucket] = _directions(grid, q, start, mean)
                for value, direction in zip(self.told.get(bucket, ()), self.shape[bucket], strict=False):
                    directions.append(_scaled(direction, value))
        if not complete:
            directions += self._mixed_directions(len(grid.knots))
        matrix = linalg.gram(directions)
        for row, minus in zip(matrix, linalg.gram(less), strict=True):
            row[:] = [a - b for a, b in zip(row, minus, strict=True)]
        for value, k, part in zip(inside, grid.knot, grid.part, strict=True):
            matrix[k][k] += value * (1.0 - part) ** 2
            matrix[k + 1][k] += value * part * (1.0 - part)
            matrix[k + 1][k + 1] += value * part * part
        return matrix

    def _worth(self) -> dict[int, list[float]]:
        """Per bucket, what the clumps tell about each orthogonal polynomial: k^(2 - r) per record."""
        worth: dict[int, list[float]] = {}
        for clump in self._posterior.sample.clumps:
            independent = self._posterior.worth(clump)
            held = worth.setdefault(clump.bucket, [0.0] * ORDERS)
            part = independent * clump.weight
            for r in range(ORDERS):
                held[r] += part
                part /= independent
        return worth

    def _mixed_directions(self, size: int) -> list[list[float]]:
        """Mean and variance directions of records over several buckets, whose sums couple the buckets."""
        mixed = self._posterior.sample.mixed
        if not mixed:
            return []
        buckets = sorted({part[0] for record in mixed for part in record.parts})
        place = {bucket: i for i, bucket in enumerate(buckets)}
        couple = [[[0.0] * len(buckets) for _ in buckets] for _ in range(2)]
        correlation = self._posterior.correlation
        for record in mixed:
            parts = [
                (place[b], c, self._spread.get(b, 1e-150), 1.0 + (c - 1) * correlation.get(b, 0.0))
                for b, c, _, _ in record.parts
            ]
            variance = sum([c * s * s * alike for _, c, s, alike in parts])
            scale = record.weight / variance
            for i, c, s, _ in parts:
                for j, other, t, _ in parts:
                    if j <= i:
                        couple[0][i][j] += scale * c * s * other * t
                        couple[1][i][j] += scale * c * s * s * other * t * t / variance
        for bucket, i in place.items():
            held = self.told.setdefault(bucket, [0.0] * ORDERS)
            self.told[bucket] = [held[0] + couple[0][i][i], held[1] + couple[1][i][i], *held[2:]]
        out: list[list[float]] = []
        for order, matrix in enumerate(couple):
            factor = linalg.cholesky(matrix)
            for column in range(len(buckets)):
                new = [0.0] * size
                for row in range(column, len(buckets)):
                    basis = self.shape.get(buckets[row], [])
                    if len(basis) > order:
                        weight = factor[row][column]
                        new = [a + weight * b for a, b in zip(new, basis[order], strict=True)]
                out.append(new)
        return out


def _directions(
    grid: Grid, q: list[float], start: int, mean: list[float]
) -> tuple[list[list[float]], float, list[list[float]]]:
    """Covariance of the coefficients' basis with the orthonormal polynomials of the value under ``q``; the value's
    deviation; the polynomials.
    """
    x = grid.x[start : start + len(q)]
    centre = sum(map(mul, q, x))
    width = math.sqrt(max(sum(w * (v - centre) ** 2 for w, v in zip(q, x, strict=True)), 1e-300))
    z = [(v - centre) / width for v in x]
    basis: list[list[float]] = [[1.0] * len(q)]
    out: list[list[float]] = []
    for _ in range(min(ORDERS, len(q) - 1)):
        new = list(map(mul, basis[-1], z))
        norm_before = sum(w * v * v for w, v in zip(q, new, strict=True))
        for old in basis:
            along = sum(w * a * b for w, a, b in zip(q, new, old, strict=True))
            new = [a - along * b for a, b in zip(new, old, strict=True)]
        norm = sum(w * v * v for w, v in zip(q, new, strict=True))
        if norm < 1e-9 * norm_before or norm < 1e-12:
            break
        scale = 1.0 / math.sqrt(norm)
        new = [v * scale for v in new]
        basis.append(new)
        weighted = list(map(mul, q, new))
        part = sum(weighted)
        out.append([a - part * b for a, b in zip(grid.project(weighted, start), mean, strict=True)])
    return out, width, basis[1:]


def _scaled(v: list[float], weight: float) -> list[float]:
    root = math.sqrt(max(weight, 0.0))
    return [root * a for a in v]
