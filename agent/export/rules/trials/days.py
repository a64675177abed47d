"""Trials that take hours or days. In: the configuration. Out: trials with long steps: vanished traffic, error budgets.

They have a file of their own, as one file has one evaluation interval, and a day of half-minutes would take minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from agent.burn import error_budget
from agent.config import Config, Objective
from agent.export.rules.families import vllm_family
from agent.export.rules.identity import rule_of
from agent.export.rules.legs import legs_of
from agent.export.rules.trials.model import Check, Fired, Trial
from agent.export.rules.trials.stage import Stage
from agent.export.rules.trials.world import Phase
from agent.verdicts.alert_rules import BUDGET_ALERT, OBJECTIVE_ALERT

STEP_SECONDS = 120.0
DAY_STEPS = 720
HEALTHY_MINUTES = 120
MARKS = (2, 20, 26, 32, 45, 60, 90)
SETTLED_MINUTES = 12
"""Evaluations are five minutes apart and hold times begin with one: what is newer than this may not show yet."""


def day_trials(config: Config) -> tuple[Trial, ...]:
    """Trials with steps of two minutes."""
    stage = Stage(config, vllm_family(config))
    found = [_vanished(stage)]
    shares = [one for one in config.objectives if stage.has(BUDGET_ALERT, objective=one.name)]
    if len(shares) == 1:
        found.append(_burn(stage, shares[0]))
    return tuple(found)


def _vanished(stage: Stage) -> Trial:
    """A day after few requests silence says nothing; a day after many it says that something is wrong."""
    rule = rule_of("traffic_vanished")
    fired = tuple(stage.fired(rule.name, {"value": "0"}, scope=pool.name) for pool in stage.config.pools)
    few, many = 15, 20
    phases = [
        stage.day(few, requests=4),
        stage.day(many, requests=16),
        stage.day(DAY_STEPS - few - many, gone=True),
        stage.day(few + many, requests=0, running=0),
    ]
    series = stage.series({pool.name: phases for pool in stage.config.pools})
    checks = (Check((DAY_STEPS + few - 3) * STEP_SECONDS), Check((DAY_STEPS + few + many - 1) * STEP_SECONDS, fired))
    return Trial(f"traffic vanishes: {rule.name}", series, checks, STEP_SECONDS)


def _burn(stage: Stage, objective: Objective) -> Trial:
    """Two good hours, then every request is slow: each severity fires when its share is reached."""
    legs = legs_of(objective, stage.config)
    checks = []
    for minute in MARKS:
        fired = _expected(stage, objective, minute)
        if fired is not None:
            checks.append(Check((HEALTHY_MINUTES + minute) * 60.0 - STEP_SECONDS, fired))
    story = {}
    for pool in stage.config.pools:
        later = _day(stage, MARKS[-1])
        if pool.name in legs[-1].pools:
            later = replace(later, slow=later.requests, slow_seconds=2 * objective.target)
        story[pool.name] = [_day(stage, HEALTHY_MINUTES), later]
    return Trial(f"every request is slow: {BUDGET_ALERT}", stage.series(story), tuple(checks), STEP_SECONDS)


def _day(stage: Stage, minutes: int) -> Phase:
    return stage.day(int(minutes * 60 / STEP_SECONDS), requests=16)


def _expected(stage: Stage, objective: Objective, minute: int) -> tuple[Fired, ...] | None:
    """What has fired `minute` minutes into a full outage of quality; None where that is too near to call."""
    budget = error_budget(Decimal(str(objective.objective_ratio)))
    fired: dict[str, Fired] = {}
    for tier in budget.tiers:
        burns = _beyond(float(tier.threshold_ratio), (tier.long_seconds, tier.short_seconds), minute)
        if burns is None:
            return None
        if burns:
            about = {"objective": objective.name, "severity": tier.severity}
            fired[tier.severity] = stage.fired(BUDGET_ALERT, **about)
    broken = _beyond(float(budget.budget_ratio), (objective.window_seconds,), minute)
    if broken is None:
        return None
    return (*([stage.fired(OBJECTIVE_ALERT, objective=objective.name)] if broken else []), *fired.values())


def _beyond(threshold: float, windows: Sequence[float], minute: int) -> bool | None:
    """Whether the slow share of every window is above the threshold; None if it was not so some minutes ago."""
    now, before = (
        all(_share(at, seconds) > threshold for seconds in windows) for at in (minute, minute - SETTLED_MINUTES)
    )
    return now if now == before else None


def _share(minute: int, window_seconds: float) -> float:
    """The slow share of a window, of which there is no more than was played."""
    return min(1.0, max(0, minute) / min(window_seconds / 60, HEALTHY_MINUTES + max(0, minute)))
