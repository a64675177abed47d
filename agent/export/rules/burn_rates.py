"""Burn rates of share objectives. In: the configuration and a source. Out: bad shares, recorded, and alerts on them.

Tiers, factors and what they mean come from `burn.py`, the same that pdwatch pages by. A request counts as bad only
where its bucket says so for certain, or, with `certainty: likely`, by the recovered distribution where there is one.
The tiers of one severity are one alert, as they are one error budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from agent.burn import Budget, Tier, error_budget
from agent.config import Config, Objective
from agent.export.rules.identity import Identity, board_of
from agent.export.rules.legs import Leg, counts, legs_of, share_within
from agent.export.rules.model import Alert, Group, Recording, Rule, Severity
from agent.export.rules.promql import all_of, any_of, matchers, number, span
from agent.export.rules.source import Source
from agent.export.rules.wording import POSSIBLE_CAUSES
from agent.verdicts.alert_rules import BUDGET_ALERT
from agent.verdicts.phrases import subject

SHORT_WINDOW_SECONDS = 6 * 3600
LONG_INTERVAL_SECONDS = 120.0
"""Windows of days read millions of samples: they are recorded every two minutes, which they do not notice."""
LOOKBACK_SECONDS = 300


def burn_groups(config: Config, source: Source, identity: Identity) -> list[Group]:
    """Recordings of short windows, recordings of long ones, and the alerts; none without a share objective."""
    short: list[Rule] = []
    long: list[Rule] = []
    alerts: list[Rule] = []
    said: list[str] = []
    for objective in config.objectives:
        ratio = objective.objective_ratio
        if ratio is None:
            continue
        where = f"{objective.name} of {objective.scope}"
        if ratio >= 1:
            said.append(f"{where}: a promised share of 1 leaves no budget to burn")
            continue
        legs = legs_of(objective, config)
        budget = error_budget(Decimal(str(ratio)))
        recordings = _recordings(objective, legs, source, identity, budget.tiers)
        if not recordings:
            said.append(f"{where}: {source.word}'s metrics have no bucket edge that could tell a bad request")
            continue
        said += [f"{where}: no tier {refused.name}: {refused.reason}" for refused in budget.refused]
        for seconds, recording in recordings.items():
            (short if seconds <= SHORT_WINDOW_SECONDS else long).append(recording)
        alerts += _alerts(objective, budget, recordings, identity)
    groups = [
        Group("pdwatch-burn-rates", tuple(short)),
        Group("pdwatch-burn-rates-of-days", tuple(long), LONG_INTERVAL_SECONDS),
        Group("pdwatch-error-budgets", tuple(alerts), comments=tuple(said)),
    ]
    return [group for group in groups if group.rules or group.comments]


def _recordings(
    objective: Objective, legs: tuple[Leg, ...], source: Source, identity: Identity, tiers: Sequence[Tier]
) -> dict[int, Recording]:
    """Window in seconds -> the share that is bad for certain, while there are enough requests in it."""
    found: dict[int, Recording] = {}
    windows = {seconds for tier in tiers for seconds in (tier.long_seconds, tier.short_seconds)}
    for seconds in sorted(windows):
        within, sure = _within(objective, legs, source, seconds)
        if within is None or any(source.count(leg.indicator, leg.pools, seconds) is None for leg in legs):
            return {}
        enough = [f"{count} >= {objective.min_requests}" for count in counts(legs, source, seconds)]
        # The share within may be said to be a little more than all where two legs' buckets are added.
        expr = all_of(f"clamp_min(1 - ({within}), 0)", *enough)
        labels = identity.deployment | {"objective": objective.name, "scope": objective.scope}
        record = f"objective:{source.word}_{objective.indicator}_bad_ratio:{sure}{span(seconds)}"
        found[seconds] = Recording(record, expr, labels)
    return found


def _within(objective: Objective, legs: tuple[Leg, ...], source: Source, seconds: int) -> tuple[str | None, str]:
    """The share within the target, and whether the bad share that follows is its `low` end or an `estimate`."""
    target = Decimal(str(objective.target))
    if objective.certainty == "likely" and len(legs) == 1:
        estimated = source.estimated(legs[0].indicator, target, legs[0].pools, seconds)
        if estimated is not None:
            return f"{estimated[0]} / ({estimated[1]} > 0)", "estimate"
    return share_within(legs, source, seconds, target, "high") if legs else None, "low"


def _alerts(objective: Objective, budget: Budget, recordings: dict[int, Recording], identity: Identity) -> list[Alert]:
    alerts = []
    severities: tuple[Severity, ...] = ("critical", "warning")
    for severity in severities:
        tiers = [tier for tier in budget.tiers if tier.severity == severity]
        if not tiers:
            continue
        alerts.append(
            Alert(
                BUDGET_ALERT,
                any_of(*(_burning(tier, recordings) for tier in tiers)),
                identity.of_objective(objective, severity),
                summary=f"The error budget burns too fast: {subject(objective)}.",
                description=f"At least %value:percent% of requests are outside the target, of which "
                f"{number(budget.budget_ratio * 100)} % are allowed over 30d ({subject(objective)}).",
                runbook_url=identity.runbook(BUDGET_ALERT),
                dashboard_url=identity.dashboard(board_of(objective)),
                cause=f"Possible: {POSSIBLE_CAUSES[objective.indicator]}.",
                keep_seconds=objective.clear_seconds,
                comments=tuple(f"tier {tier.name} {tier.says}" for tier in tiers),
            )
        )
    return alerts


def _burning(tier: Tier, recordings: dict[int, Recording]) -> str:
    over = [
        f"{_last(recordings[seconds])} > {number(tier.threshold_ratio)}"
        for seconds in (tier.long_seconds, tier.short_seconds)
    ]
    return all_of(over[0], over[1])


def _last(recording: Recording) -> str:
    return f"last_over_time({recording.record}{{{matchers(**recording.labels)}}}[{span(LOOKBACK_SECONDS)}])"
