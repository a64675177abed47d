"""Error budgets: factors are derived, tiers that cannot fire are not shipped, and every tier says when it fires."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.burn import PLANS, Budget, Tier, decimal_text, error_budget, span_text

DAY = 86400


def factors(budget: Budget) -> dict[str, str]:
    return {tier.name: decimal_text(tier.factor) for tier in budget.tiers}


def tier(budget: Budget, name: str) -> Tier:
    return next(found for found in budget.tiers if found.name == name)


def test_the_usual_factors_come_out_of_period_and_budget_part() -> None:
    assert factors(error_budget(0.999)) == {"fast": "14.4", "medium": "6", "slow": "3", "trickle": "1"}
    assert factors(error_budget(0.999, 28 * DAY)) == {"fast": "13.44", "medium": "5.6", "slow": "2.8", "trickle": "1"}


def test_a_percentile_promise_gets_a_fast_tier_that_a_half_broken_pool_fires() -> None:
    budget = error_budget(0.95)
    fast = tier(budget, "fast")
    assert factors(budget) == {"fast": "10", "medium": "6", "slow": "3", "trickle": "1"}
    assert fast.threshold_ratio == Decimal("0.5")
    assert fast.says == (
        "fires after 30 min of full outage, or at more than 50 % slow over 1h and 5m "
        "(a factor of 14.4 would need 72 % slow, so it is capped to 10)"
    )


def test_a_tier_that_could_never_fire_is_capped_and_said_and_its_double_is_refused() -> None:
    budget = error_budget(0.90)
    assert factors(budget) == {"fast": "5", "slow": "3", "trickle": "1"}
    assert "a factor of 14.4 could never fire" in tier(budget, "fast").changed
    assert [refused.name for refused in budget.refused] == ["medium"]
    assert "fast has fired already" in budget.refused[0].reason


def test_a_factor_below_one_is_raised_for_the_budget_would_last() -> None:
    budget = error_budget(0.999, 7 * DAY)
    assert factors(budget) == {"fast": "3.36", "medium": "1.4", "slow": "1"}
    assert "raised from 0.7 to 1" in tier(budget, "slow").changed
    assert [refused.name for refused in budget.refused] == ["trickle"]


def test_a_window_longer_than_the_period_is_refused() -> None:
    assert {refused.name for refused in error_budget(0.99, DAY).refused} >= {"trickle"}


@pytest.mark.parametrize(
    ("objective", "minutes", "slow"), [(0.999, "0.9", "1.44"), (0.99, "8.6", "14.4"), (0.95, "30", "50")]
)
def test_the_fast_tier_says_when_it_fires(objective: float, minutes: str, slow: str) -> None:
    said = tier(error_budget(objective), "fast").says
    assert said.startswith(f"fires after {minutes} min of full outage, or at more than {slow} % slow")


def test_budgets_hold_no_float_dust() -> None:
    assert decimal_text(error_budget(0.999).budget_ratio) == "0.001"
    assert decimal_text(error_budget(0.95).budget_ratio) == "0.05"
    assert decimal_text(Decimal("0.0000")) == "0"
    assert [span_text(s) for s in (45, 300, 3600, 21600, 259200)] == ["45s", "5m", "1h", "6h", "3d"]


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5])
def test_a_promise_without_a_budget_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="above 0 and below 1"):
        error_budget(share)


def test_a_tier_judges_only_what_is_certain() -> None:
    slow = tier(error_budget(0.95), "slow")  # more than 15 %
    assert slow.judge((0.16, 0.2), (0.16, 0.2)) is True
    assert slow.judge((0.16, 0.2), (0.10, 0.15)) is False
    assert slow.judge((0.14, 0.2), (0.16, 0.2)) is None


def test_a_burn_of_one_spends_exactly_the_budget_of_the_period() -> None:
    budget = error_budget(0.99)
    assert budget.burn(0.01) == pytest.approx(1.0)
    assert budget.spent(0.01, 30 * DAY) == pytest.approx(1.0)
    assert budget.spent(0.144, 3600) == pytest.approx(0.02)


@given(st.decimals("0.01", "0.9999", places=4), st.integers(1, 90))
def test_every_tier_can_fire_and_none_fires_while_the_promise_is_kept(objective: Decimal, days: int) -> None:
    budget = error_budget(objective, days * DAY)
    for found in budget.tiers:
        assert budget.budget_ratio <= found.threshold_ratio < 1
        assert 0 < found.full_outage_seconds < found.long_seconds
        assert found.judge((1.0, 1.0), (1.0, 1.0)) is True
    thresholds = [found.factor for found in budget.tiers]
    assert thresholds == sorted(set(thresholds), reverse=True)
    assert {t.name for t in budget.tiers} | {r.name for r in budget.refused} == {plan.name for plan in PLANS}
