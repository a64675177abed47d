"""What the memory trend may be told: one time scale, and the thresholds of its tests.

Nothing comes in; `TrendSettings` goes out, and every other file of this package reads its times and
thresholds here. Only `time_scale` is meant for operators: it multiplies every duration at once, so
that the verdicts of eight hours can be shown in eight minutes (1/60). The rest are the measured
compromises that docs/memory.md explains; they are fields so that a test or a bench can change one
and show what it buys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from agent.errors import ConfigError

MB = float(1 << 20)
HOUR_SECONDS = 3600.0

INCREMENTS = 12
"""Increments between neighbouring sub-windows that make one decision window."""

SUB_WINDOW_BINS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 18, 24, 36, 48, 72, 96, 144)
"""Lengths of the sub-windows, in bins of `TrendSettings.bin_seconds` (5 minutes to 12 hours)."""

SUB_WINDOWS_KEPT = 61
"""Sub-windows remembered per length: 76 hours at 75 minutes and more above, a month at 12 hours."""


@dataclass(frozen=True, slots=True)
class Grade:
    """One way to earn a verdict: how long a window and how much certainty it asks for."""

    patience_hours: float
    """Longest window that is ever asked for, when the limit is far away."""
    patience_floor_hours: float = 1.0
    """Shortest window of twelve increments, however near the limit is."""
    headroom_share: float = 8.0
    """A window must be as long as the time to the limit divided by this (within the two above)."""
    noise_t: float = 6.0
    """Least t value of the mean increment."""
    life_ratio: float = 0.75
    """Least rate in the second half of the life over the rate in its second quarter."""
    life_ratio_sure: float = 0.65
    """The same ratio, which must be exceeded by one standard error."""
    kept_without_two_largest: float = 0.5
    """Share of the growth that must remain without the two largest increments."""
    rising_increments: int = 10
    """Of the twelve increments, so many must be above a fifth of the mean."""
    draw_down_factor: float = 2.0
    """Growth must be this many times the deepest fall seen on the same scale."""
    straight: bool = False
    """Only a straight line counts: its two halves agree, the life's rates are known and agree, and memory does
    not answer to load. What is straight over a shorter window is as safe as what is only long."""
    undisturbed: bool = False
    """Only a young life that did nothing else: load is known and constant, and the window covers most of the life.
    Then traffic explains nothing, and noise may be as large as the growth between two sub-windows."""


PATIENT = Grade(patience_hours=8.0, noise_t=7.0, life_ratio=0.82, life_ratio_sure=0.75)
PROMPT = Grade(patience_hours=7.0, noise_t=9.0, life_ratio=0.9, life_ratio_sure=0.8, straight=True)
UNDISTURBED = Grade(
    patience_hours=6.6,
    noise_t=2.5,
    life_ratio=0.75,
    life_ratio_sure=0.0,
    kept_without_two_largest=0.45,
    rising_increments=8,
    draw_down_factor=4.0,
    undisturbed=True,
)
EARLY = Grade(patience_hours=6.0)
EARLIEST = Grade(patience_hours=4.0, noise_t=8.0, life_ratio=0.9, life_ratio_sure=0.8)
TENTATIVE = Grade(
    patience_hours=10.0,
    noise_t=4.0,
    life_ratio=0.7,
    life_ratio_sure=0.6,
    kept_without_two_largest=0.4,
    rising_increments=9,
    draw_down_factor=1.5,
)


@dataclass(frozen=True, slots=True)
class TrendSettings:
    """Times in hours or seconds before scaling, sizes in bytes, shares without unit."""

    time_scale: float = 1.0
    """Multiplies every duration below and divides every rate; 1/60 turns hours into minutes."""

    bin_seconds: float = 300.0
    warm_up_seconds: float = 1800.0
    """Time after readiness that is never judged."""
    stale_after_seconds: float = 900.0
    """Without a valid reading for this long the trend is `unknown`."""

    leaking: tuple[Grade, ...] = (PATIENT, PROMPT, UNDISTURBED)
    growing: tuple[Grade, ...] = (EARLY, EARLIEST, TENTATIVE)
    """Ways to earn each verdict; one is enough."""

    min_growth_bytes: float = 48.0 * MB
    min_slope_bytes_per_hour: float = 4.0 * MB
    noise_floor_bytes: float = 0.25 * MB
    """Added to the scatter of increments, so that a noiseless series is no division by zero."""
    halves_ratio: float = 0.6
    """Least rate in the second half of a window over the rate in its first half."""
    halves_ratio_significant: float = 0.85
    """The same, when the increments decline with a t value beyond `decline_t`."""
    decline_t: float = 2.0
    straight_halves: tuple[float, float] = (0.8, 1.3)
    """For a straight line the same ratio lies in here."""
    straight_life_ratio: float = 1.3
    """And the life's late rate is at most this many times the early one."""
    constant_load_range: float = 0.3
    """Load is constant when its ten-minute mean moves by no more than this share of its highest."""
    undisturbed_share: float = 0.75
    """Least share of the life's age that the window covers, for a life that did nothing else."""
    undisturbed_hours: float = 9.5
    """Its longest window: in sub-windows of an hour the leniency would forgive steps that get rarer."""
    undisturbed_life_ratio: float = 0.65
    """What is left of the grade's `life_ratio` when the window's halves hold it: noise rarely bends both ways of
    looking, a curve always does."""
    undisturbed_life_ratio_most: float = 1.6
    """And its late rate is at most this many times the early one: a process that only now began to climb in steps has
    not done nothing else."""
    pooled_from_hours: float = 2.0
    """Across restarts only increments at ages beyond this count."""
    response_gain: float = 0.08
    """Share of the movement that a response to load must explain before it is taken out."""
    interval_factor: float = 3.8
    """Half width of the slope's interval in standard errors of the increments: holds 95 %, measured."""

    quickest: Grade = field(init=False, repr=False)
    """The grade with the least patience: what is too short for it is not looked at."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_scale) and self.time_scale > 0):
            raise ConfigError(
                f"memory.time_scale is {self.time_scale!r}: give a number above 0 "
                "(1 in production, 1/60 for a demonstration of 20 minutes)"
            )
        grades = self.growing + self.leaking
        if len({(grade.patience_floor_hours, grade.headroom_share) for grade in grades}) != 1:
            raise ConfigError("memory trend: all grades must share patience_floor_hours and headroom_share")
        object.__setattr__(self, "quickest", min(grades, key=lambda grade: grade.patience_hours))

    @property
    def hour_seconds(self) -> float:
        """One hour of the settings, in seconds of the readings' clock."""
        return HOUR_SECONDS * self.time_scale
