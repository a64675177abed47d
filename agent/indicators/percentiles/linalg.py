"""Dense linear algebra of a few dozen unknowns, without numpy.

In: a symmetric positive definite matrix as a list of rows. Out: its Cholesky factor, solutions, and its inverse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

Matrix = list[list[float]]


def cholesky(matrix: Sequence[Sequence[float]]) -> Matrix:
    """The lower factor L with L L' = ``matrix``, row i holding i + 1 numbers; pivots too small are raised."""
    factor: Matrix = []
    floor = 1e-12 * max(row[i] for i, row in enumerate(matrix)) + 1e-300
    for i, row in enumerate(matrix):
        new: list[float] = []
        for j in range(i):
            other = factor[j]
            new.append((row[j] - sum(map(mul, new, other))) / other[j])
        new.append(math.sqrt(max(row[i] - sum(map(mul, new, new)), floor)))
        factor.append(new)
    return factor


def solve_lower(factor: Matrix, right: Sequence[float]) -> list[float]:
    """Y with L y = right."""
    y: list[float] = []
    for row, value in zip(factor, right, strict=True):
        y.append((value - sum(map(mul, y, row))) / row[-1])
    return y


def solve(factor: Matrix, right: Sequence[float]) -> list[float]:
    """X with L L' x = right."""
    x = solve_lower(factor, right)
    for i in range(len(x) - 1, -1, -1):
        row = factor[i]
        x[i] = value = x[i] / row[i]
        for j in range(i):
            x[j] -= value * row[j]
    return x


def form(factor: Matrix, right: Sequence[float], first: int = 0) -> float:
    """V' (L L')^-1 v for the v that holds ``right`` from place ``first`` on and zeros elsewhere."""
    y: list[float] = []
    for place in range(first, len(factor)):
        row = factor[place]
        value = right[place - first] if place - first < len(right) else 0.0
        y.append((value - sum(map(mul, y, row[first:]))) / row[-1])
    square: float = sum(map(mul, y, y))
    return square


def gram(vectors: Sequence[Sequence[float]]) -> Matrix:
    """Lower triangle (rows of full length, zeros above) of the sum of v v'."""
    columns = list(zip(*vectors, strict=True))
    size = len(columns)
    return [[sum(map(mul, a, b)) for b in columns[: i + 1]] + [0.0] * (size - i - 1) for i, a in enumerate(columns)]
