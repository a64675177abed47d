"""Error budgets: how fast a share objective burns its budget, and which rates call whom.

In: the promised share and the period it is promised for. Out: tiers with factor, threshold and times, in exact decimals
(the same numbers go into generated rules, where float dust would change a file that means the same).

A tier alerts while the bad share over its long *and* its short window exceeds factor x budget. The factor is derived:
budget part x period / long window is the burn rate that spends that part of the budget within the long window. As the
burn rate cannot exceed 1 / budget, an objective of 95 % needs care that one of 99.9 % does not; docs/objectives.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

PERIOD_SECONDS = 30 * 86400
HALF = Decimal("0.5")
ONE = Decimal(1)
FACTOR_STEP = Decimal("0.0001")

Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class TierPlan:
    """A tier before it is fitted to an objective: `part` of the period's budget may go in one long window."""

    name: str
    severity: Severity
    long_seconds: int
    short_seconds: int
    part: Decimal


PLANS: tuple[TierPlan, ...] = (
    TierPlan("fast", "critical", 3600, 300, Decimal("0.02")),
    TierPlan("medium", "critical", 6 * 3600, 1800, Decimal("0.05")),
    TierPlan("slow", "warning", 86400, 2 * 3600, Decimal("0.10")),
    TierPlan("trickle", "warning", 3 * 86400, 6 * 3600, Decimal("0.10")),
)
"""The usual four of the SRE workbook; short windows are a twelfth of the long ones."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier fitted to one objective. `threshold_ratio` = factor x budget: the bad share above which it alerts.

    `changed` says why the factor is not the derived one, or "".
    """

    name: str
    severity: Severity
    long_seconds: int
    short_seconds: int
    derived_factor: Decimal
    factor: Decimal
    budget_ratio: Decimal
    changed: str = ""

    @property
    def threshold_ratio(self) -> Decimal:
        return self.factor * self.budget_ratio

    @property
    def full_outage_seconds(self) -> Decimal:
        """How long everything must be bad, after nothing was, until the tier alerts."""
        return self.threshold_ratio * self.long_seconds

    @property
    def says(self) -> str:
        """When it alerts, in one sentence."""
        sentence = (
            f"fires after {decimal_text(self.full_outage_seconds / 60, 1)} min of full outage, "
            f"or at more than {decimal_text(self.threshold_ratio * 100, 2)} % slow "
            f"over {span_text(self.long_seconds)} and {span_text(self.short_seconds)}"
        )
        return f"{sentence} ({self.changed})" if self.changed else sentence

    def judge(self, long_bad: tuple[float, float], short_bad: tuple[float, float]) -> bool | None:
        """True: burns too fast for certain; False: certainly not; None: the bounds do not say.

        Each pair is the least and the most that the bad share of that window can be.
        """
        limit = float(self.threshold_ratio)
        if long_bad[0] > limit and short_bad[0] > limit:
            return True
        return False if long_bad[1] <= limit or short_bad[1] <= limit else None


@dataclass(frozen=True, slots=True)
class Refused:
    """A tier that an objective cannot have, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Budget:
    """The error budget of one objective: promised share, period, tiers, and tiers it cannot have."""

    objective_ratio: Decimal
    period_seconds: int
    tiers: tuple[Tier, ...]
    refused: tuple[Refused, ...]

    @property
    def budget_ratio(self) -> Decimal:
        return ONE - self.objective_ratio

    def burn(self, bad_share: float) -> float:
        """How many times faster than sustainable the budget goes at this bad share."""
        return bad_share / float(self.budget_ratio)

    def spent(self, bad_share: float, window_seconds: float) -> float:
        """The part of the period's budget that a window with this bad share uses up, traffic being even."""
        return self.burn(bad_share) * window_seconds / self.period_seconds


def error_budget(
    objective_ratio: float | Decimal, period_seconds: int = PERIOD_SECONDS, plans: Sequence[TierPlan] = PLANS
) -> Budget:
    """Fits `plans`, fastest first, to a promised share (0 < share < 1). Raises ValueError outside.

    A share of 1 has no budget: every bad request breaks it, and only a direct rule can watch it.
    """
    promised = Decimal(str(objective_ratio))
    if not 0 < promised < 1:
        raise ValueError(f"an error budget needs a promised share above 0 and below 1, not {objective_ratio}")
    budget = ONE - promised
    tiers: list[Tier] = []
    refused: list[Refused] = []
    for plan in plans:
        tier = _fitted(plan, budget, period_seconds)
        covering = next((other for other in tiers if other.factor <= tier.factor), None)
        if tier.long_seconds > period_seconds:
            refused.append(Refused(plan.name, f"its window is longer than the period of {span_text(period_seconds)}"))
        elif tier.threshold_ratio >= 1:
            refused.append(Refused(plan.name, "it could never fire: no share of requests is above 100 %"))
        elif covering is not None:
            share = decimal_text(tier.threshold_ratio * 100, 2)
            why = f"it would fire at more than {share} % slow, where {covering.name} has fired already"
            refused.append(Refused(plan.name, why))
        else:
            tiers.append(tier)
    return Budget(promised, period_seconds, tuple(tiers), tuple(refused))


def _fitted(plan: TierPlan, budget: Decimal, period_seconds: int) -> Tier:
    """The plan's tier with its factor brought into what can happen (at most half of all requests bad) and what matters.

    A burn rate below 1 leaves budget over.
    """
    derived = (plan.part * period_seconds / plan.long_seconds).quantize(FACTOR_STEP)
    factor, changed = derived, ""
    most = max(ONE, (HALF / budget).quantize(FACTOR_STEP))
    if derived > most:
        factor = most
        never = "could never fire" if derived * budget >= 1 else ""
        effect = never or f"would need {decimal_text(derived * budget * 100, 2)} % slow"
        changed = f"a factor of {decimal_text(derived, 4)} {effect}, so it is capped to {decimal_text(most, 4)}"
    elif derived < 1:
        factor, changed = ONE, f"factor raised from {decimal_text(derived, 4)} to 1, below which the budget lasts"
    return Tier(plan.name, plan.severity, plan.long_seconds, plan.short_seconds, derived, factor, budget, changed)


def decimal_text(number: Decimal, places: int = 10) -> str:
    """A decimal without float dust, exponent or trailing zeros: 0.05, 14.4, 30."""
    rounded = number.quantize(ONE.scaleb(-places)).normalize()
    return format(rounded if rounded else Decimal(0), "f")


def span_text(seconds: float) -> str:
    """A window as rules write it: 5m, 6h, 3d."""
    whole = round(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size and whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"
