"""Synthetic memory series for the tests of this folder: minutes as samples, bytes as values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

from agent.indicators.memory import Trend, TrendReading

MB = float(1 << 20)
GB = float(1 << 30)
MINUTE = 60.0
HOUR = 3600.0
START = 1_795_000_000.0


def samples(
    hours: float, value: Callable[[float], float], every: float = MINUTE, start: float = START
) -> Iterator[tuple[float, float]]:
    """(time, bytes) from `value(seconds since start)`."""
    for index in range(int(hours * HOUR / every) + 1):
        yield start + index * every, value(index * every)


def noisy(value: Callable[[float], float], spread: float = 5 * MB, seed: int = 1) -> Callable[[float], float]:
    """The same series with independent noise, whole pages."""
    rng = random.Random(seed)
    return lambda seconds: float(int((value(seconds) + rng.gauss(0, spread)) // 4096 * 4096))


def wandering(
    value: Callable[[float], float], spread: float, hours: float, white: float = 5 * MB, seed: int = 1
) -> Callable[[float], float]:
    """The same series with noise that wanders around it (standard deviation, time constant) plus independent noise.

    For samples a minute apart, asked for in order.
    """
    rng = random.Random(seed)
    keep = math.exp(-MINUTE / (hours * HOUR))
    state = rng.gauss(0, spread)

    def noisy_value(seconds: float) -> float:
        nonlocal state
        state = keep * state + math.sqrt(1 - keep * keep) * rng.gauss(0, spread)
        return float(int((value(seconds) + state + rng.gauss(0, white)) // 4096 * 4096))

    return noisy_value


def leak(megabytes_per_hour: float, base: float = 6 * GB) -> Callable[[float], float]:
    """A straight line."""
    return lambda seconds: base + megabytes_per_hour * MB * seconds / HOUR


def first_hours(
    trend: Trend,
    series: Iterator[tuple[float, float]],
    wanted: str,
    limit: float | None = None,
    budget: float | None = None,
) -> float | None:
    """Hours from the first sample until the trend is `wanted`; None when it never is."""
    start = None
    for t, value in series:
        start = t if start is None else start
        trend.update(t, value)
        if trend.reading(t, limit, budget).trend == wanted:
            return (t - start) / HOUR
    return None


def feed(
    trend: Trend,
    series: Iterator[tuple[float, float]],
    limit: float | None = None,
    budget: float | None = None,
) -> list[TrendReading]:
    """The reading after every sample."""
    readings = []
    for t, value in series:
        trend.update(t, value)
        readings.append(trend.reading(t, limit, budget))
    return readings
