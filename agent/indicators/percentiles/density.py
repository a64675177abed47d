"""The smooth distribution over the fine bins that explains the sample best: penalised maximum likelihood.

In: a `Sample` on a `Grid`. Out: coefficients of the log-density and the bins' probabilities.
Each step is a Newton step on the coefficients. The score is the expected counts (`posterior`) minus the predicted
ones; the curvature is what the sums can tell (`information`), mixed with what exact values would tell after a step
that lost likelihood: with that alone it is a step of expectation maximisation. The roughness penalty's weight
follows from the data (the fixed point of Fellner and Schall, see Wood and Fasiolo 2017), so a spiky distribution
that the sums do show is not smoothed away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import mul

from agent.indicators.percentiles import linalg
from agent.indicators.percentiles.grid import Grid
from agent.indicators.percentiles.information import Information
from agent.indicators.percentiles.posterior import Posterior
from agent.indicators.percentiles.sample import Sample

STEPS = 14
ATTEMPTS = 5
MOST_GROWTH = 2.0
# The likelihood is approximate by this much; smaller losses are no reason to step back.
NOISE = 0.3
LARGEST_MOVE = 0.8
FLAT_OBSERVATIONS = 0.05
# Part of the smoothness that the likely interval trusts.
DOUBT = 0.03
RIDGE = 1e-3
FIRST_SMOOTHNESS = 1e-5


class Density:
    """Result of a fit: ``p`` per bin, ``correlation`` per bucket, ``factor`` of the information."""

    def __init__(
        self, sample: Sample, grid: Grid, correlation: dict[int, float] | None = None, start: Density | None = None
    ) -> None:
        self.grid = grid
        self.posterior = Posterior(sample, grid, correlation)
        self.penalty_rows = grid.third_differences()
        self.penalty = _banded(self.penalty_rows, len(grid.knots))
        self.smooth: float = start.smooth if start else FIRST_SMOOTHNESS
        self.coefficients: list[float] = (
            list(start.coefficients) if start else _log_normal(sample, grid, self.posterior.correlation)
        )
        self.p = _normalised(grid.log_density(self.coefficients))
        self.factor: linalg.Matrix = []
        self.steps = self.evaluations = 0
        # A start from the window before is nearly there already.
        self._least_steps = 0 if start else 2
        self._expected, self._objective = self._evaluate(self.p, self.coefficients)
        self._fit()

    def _fit(self) -> None:
        caution = 0.0
        for step in range(STEPS):
            self.steps = step + 1
            gained, change, caution = self._step(caution)
            if gained < -NOISE:
                break
            before = self.smooth
            if step >= self._least_steps - 1:
                self._choose_smoothness()
            if step >= self._least_steps and (change < 0.03 or (abs(gained) < NOISE / 3 and change < 0.1)):
                break
            self._objective += 0.5 * (before - self.smooth) * self._roughness(self.coefficients)
        self.information = Information(self.posterior, self.p, FLAT_OBSERVATIONS)
        self.factor = linalg.cholesky(self._with_penalty(self.information.matrix, self.smooth * DOUBT))

    def _step(self, caution: float) -> tuple[float, float, float]:
        """One step: the penalised likelihood gained (a loss: nothing was moved), the relative change, the next
        caution.

        ``caution`` mixes the steps of Newton (0) and of expectation maximisation (1), and grows while steps lose.
        """
        score = self.grid.project(self._residual(self._expected))
        score = [
            s - self.smooth * sum(map(mul, row, self.coefficients)) for s, row in zip(score, self.penalty, strict=True)
        ]
        told = self._information()
        complete: linalg.Matrix | None = None
        tilts = dict(self.posterior.tilts)
        gained = change = 0.0
        for attempt in range(ATTEMPTS):
            if caution and complete is None:
                complete = self._information(complete=True)
            self.factor = linalg.cholesky(self._with_penalty(_blend(told, complete, caution), self.smooth))
            move = linalg.solve(self.factor, score)
            change, scale = self._measure(move)
            if caution == 1.0:
                scale *= 0.5**attempt
            coefficients = [c + scale * m for c, m in zip(self.coefficients, move, strict=True)]
            middle = max(coefficients)
            coefficients = [c - middle for c in coefficients]
            p = _normalised(self.grid.log_density(coefficients))
            expected, objective = self._evaluate(p, coefficients)
            gained = objective - self._objective
            if gained >= -NOISE:
                self.coefficients, self.p, self._expected, self._objective = coefficients, p, expected, objective
                if attempt == 0:
                    caution = 0.3 * caution if caution > 0.03 else 0.0
                break
            self.posterior.tilts = dict(tilts)
            caution = min(1.0, 5.0 * caution + 0.05)
        return gained, change, caution

    def _information(self, complete: bool = False) -> linalg.Matrix:
        return Information(self.posterior, self.p, FLAT_OBSERVATIONS, complete).matrix

    def _with_penalty(self, information: linalg.Matrix, smooth: float) -> linalg.Matrix:
        for i, (row, extra) in enumerate(zip(information, self.penalty, strict=True)):
            for j in range(max(0, i - 3), i + 1):
                row[j] += smooth * extra[j]
            row[i] += RIDGE
        return information

    def _evaluate(self, p: list[float], coefficients: list[float]) -> tuple[list[float], float]:
        """Expected counts beside the points, and the penalised log-likelihood."""
        self.evaluations += 1
        others, likelihood = self.posterior.expect(p, effective=True)
        likelihood += FLAT_OBSERVATIONS / len(p) * sum(map(math.log, [q + 1e-300 for q in p]))
        if not math.isfinite(likelihood):
            likelihood = -1e300
        return others, likelihood - 0.5 * self.smooth * self._roughness(coefficients)

    def _roughness(self, coefficients: list[float]) -> float:
        rough: float = sum(
            [c * sum(map(mul, row, coefficients)) for c, row in zip(coefficients, self.penalty, strict=True)]
        )
        return rough

    def _residual(self, expected: list[float]) -> list[float]:
        """Expected minus predicted counts: inside each bucket, and of each bucket as a whole."""
        out: list[float] = []
        flat = FLAT_OBSERVATIONS / self.grid.size
        total = sum(self.posterior.totals.values())
        for bucket, (start, stop) in self.grid.slices.items():
            mass = sum(self.p[start:stop]) or 1e-300
            seen = [a + b for a, b in zip(self.posterior.points[start:stop], expected[start:stop], strict=True)]
            per = (self.posterior.totals[bucket] - sum(seen)) / mass - total - FLAT_OBSERVATIONS
            out += [a + flat + per * q for a, q in zip(seen, self.p[start:stop], strict=True)]
        return out

    def _measure(self, move: list[float]) -> tuple[float, float]:
        """Root mean square relative change of the density by a move of the coefficients, and the part of it to go
        at most.

        A step is short where there is mass, and nowhere may it raise mass out of nothing.
        """
        grid = self.grid
        shift = [move[k] * (1.0 - part) + move[k + 1] * part for k, part in zip(grid.knot, grid.part, strict=True)]
        mean = sum(map(mul, self.p, shift))
        shift = [v - mean for v in shift]
        change = math.sqrt(sum([q * v * v for q, v in zip(self.p, shift, strict=True)]))
        scale = min(1.0, LARGEST_MOVE / change) if change > 0 else 0.0
        exp = math.exp
        for _ in range(20):
            if (
                scale * max(shift) < 700.0
                and sum([q * exp(scale * v) for q, v in zip(self.p, shift, strict=True)]) < MOST_GROWTH
            ):
                break
            scale *= 0.5
        return change, scale

    def _choose_smoothness(self) -> None:
        """One fixed-point step of the penalty's weight."""
        # trace(H^-1 P): P is a sum of outer products of the penalty's rows.
        trace = sum(linalg.form(self.factor, row, at) for at, row in enumerate(self.penalty_rows))
        rough = sum(
            c * sum(map(mul, row, self.coefficients)) for c, row in zip(self.coefficients, self.penalty, strict=True)
        )
        rank = len(self.penalty) - 3
        gain = max(rank / self.smooth - trace, 1e-9) / max(rough, 1e-12)
        self.smooth = min(max(self.smooth * min(max(gain, 0.1), 10.0), 1e-8), 1e6)


def _blend(a: linalg.Matrix, b: linalg.Matrix | None, part: float) -> linalg.Matrix:
    if b is None or part == 0.0:
        return [list(row) for row in a]
    keep = 1.0 - part
    return [[keep * x + part * y for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def _banded(rows: list[list[float]], size: int) -> linalg.Matrix:
    """Sum of the outer products of rows of four, the i-th starting at i."""
    matrix = [[0.0] * size for _ in range(size)]
    for at, row in enumerate(rows):
        for i, a in enumerate(row, at):
            for j, b in enumerate(row, at):
                matrix[i][j] += a * b
    return matrix


def _log_normal(sample: Sample, grid: Grid, correlation: Mapping[int, float]) -> list[float]:
    """Coefficients of a somewhat wide log-normal with the mean and variance that the records' sums show.

    Of records drawn from one distribution, (sum - k mean)^2 is k (1 + (k - 1) correlation) times its variance on
    average.
    """
    records = [(1.0, x, w, 0.0) for _, x, w in sample.points]
    records += [(c.size, c.size * c.mean, c.weight, correlation.get(c.bucket, 0.0)) for c in sample.clumps]
    for m in sample.mixed:
        main = max(m.parts, key=lambda part: part[1])[0]
        records.append((float(sum([part[1] for part in m.parts])), m.total, m.weight, correlation.get(main, 0.0)))
    size = sum([k * w for k, _, w, _ in records])
    if not size:
        return [0.0] * len(grid.knots)
    mean = max(sum([total * w for _, total, w, _ in records]) / size, math.exp(grid.knots[0]))
    variance = sum([w * (total - k * mean) ** 2 / (1.0 + (k - 1.0) * alike) for k, total, w, alike in records]) / size
    log_variance = 1.3 * math.log1p(variance / mean**2) + 4e-4
    centre = math.log(mean) - 0.5 * log_variance
    return [-0.5 * (t - centre) ** 2 / log_variance for t in grid.knots]


def _normalised(logs: list[float]) -> list[float]:
    top = max(logs)
    values = [math.exp(v - top) for v in logs]
    total = sum(values)
    return [v / total for v in values]
