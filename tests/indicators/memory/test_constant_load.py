"""The slow leak that has to be certain the same working day: 47.5 MB an hour on 6 GB, at constant load."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from agent.indicators.memory import Trend
from tests.indicators.memory.series import GB, HOUR, MB, leak, samples, wandering

Series = Callable[[float], float]

QUIET = (3 * MB, 0.3, 1 * MB)
NOISY = (20 * MB, 0.5, 8 * MB)
"""Spread and time constant in hours of the noise that wanders, spread of the independent noise."""


def hours_until_leaking(value: Series, load: Series | None, hours: float = 10.0) -> float | None:
    trend = Trend()
    trend.bound(66 * GB, None)
    for t, memory in samples(hours, value, start=0.0):
        trend.update(t, memory, load(t) if load is not None else None)
        if trend.certainty == "leaking":
            return t / HOUR
    return None


def constant(seed: int) -> Series:
    rng = random.Random(seed)
    return lambda _: 4000 * math.exp(rng.gauss(0, 0.05))


def with_noise(value: Series, noise: tuple[float, float, float], seed: int) -> Series:
    spread, hours, white = noise
    return wandering(value, spread, hours, white, seed)


@pytest.mark.parametrize("noise", [QUIET, NOISY], ids=["quiet", "noisy"])
@pytest.mark.parametrize("seed", range(6))
def test_a_leak_of_47_mb_an_hour_at_constant_load_is_certain_within_ten_hours(
    noise: tuple[float, float, float], seed: int
) -> None:
    assert hours_until_leaking(with_noise(leak(47.5), noise, seed), constant(seed)) is not None


@pytest.mark.parametrize("at", [2.6, 5.0, 6.5])
def test_a_spike_of_a_quarter_of_an_hour_does_not_hide_it(at: float) -> None:
    def spiky(seconds: float) -> float:
        return leak(47.5)(seconds) + (400 * MB if at * HOUR <= seconds < (at + 0.25) * HOUR else 0)

    assert hours_until_leaking(with_noise(spiky, QUIET, seed=1), constant(1)) is not None


def test_noise_of_that_size_is_only_forgiven_when_load_is_known_to_be_constant() -> None:
    series = [with_noise(leak(47.5), NOISY, seed) for seed in range(6)]
    unknown = [hours_until_leaking(value, None) for value in series]
    assert sum(found is None for found in unknown) >= 2


@pytest.mark.parametrize("seed", range(4))
def test_growth_that_ends_is_no_leak_at_constant_load_either(seed: int) -> None:
    def fills(seconds: float) -> float:
        return 6 * GB + 800 * MB * (1 - math.exp(-seconds / (3 * HOUR)))

    assert hours_until_leaking(with_noise(fills, NOISY, seed), constant(seed), hours=16) is None
