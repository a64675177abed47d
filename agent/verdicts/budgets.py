"""Error budgets over time: the windows of every share objective come in, burn rates, what is left, and tiers go out.

Each tier walks like an objective does: it fires as soon as its long and its short window burn too fast for certain
(the long window is the hold), and it is resolved once either has been certainly slow enough for the objective's
`clear`. What is left of the budget follows from what was watched, at most the three days that the history holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.burn import Budget, Tier, error_budget
from agent.config import Config, Objective
from agent.errors import StateError
from agent.verdicts.judging import Signal
from agent.verdicts.measurement import Measurement
from agent.verdicts.status import StatusWord, Step, Times, Track, step
from agent.verdicts.views import Views

HISTORY_SECONDS = 3 * 86400.0

TierKey = tuple[str, str, str]
"""(objective's name, scope, tier)."""


@dataclass(frozen=True, slots=True)
class BadShare:
    """The least and the most that the share of bad requests in a window can be, of `count` requests."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class TierState:
    """One tier now. `long`, `short`: None while the window says nothing (too few requests, no data)."""

    tier: Tier
    status: StatusWord
    since: float | None
    long: BadShare | None
    short: BadShare | None


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The budget of one share objective.

    `left_low`..`left_high`: the part of the period's budget that is left (below 0: overspent) after what was watched in
    the last `watched_seconds`, traffic being even and all else good; None while nothing is known.
    """

    objective: str
    scope: str
    budget: Budget
    watched_seconds: float
    left_low: float | None
    left_high: float | None
    tiers: tuple[TierState, ...]


@dataclass(frozen=True, slots=True)
class TierChange:
    """A tier that just began or ended to fire."""

    objective: Objective
    state: TierState
    step: Step


class Budgets:
    """The budgets of all share objectives of a configuration that have one (a promised share of 1 has none)."""

    def __init__(self, config: Config, gap_seconds: float) -> None:
        self.gap_seconds = gap_seconds
        self._budgets = {
            objective: error_budget(objective.objective_ratio)
            for objective in config.objectives
            if objective.objective_ratio is not None and objective.objective_ratio < 1
        }
        self._tracks: dict[TierKey, Track] = {
            (objective.name, objective.scope, tier.name): Track()
            for objective, budget in self._budgets.items()
            for tier in budget.tiers
        }
        self._states: tuple[BudgetState, ...] = ()

    @property
    def states(self) -> tuple[BudgetState, ...]:
        """As of the last evaluation."""
        return self._states

    def carried_over(self, config: Config, gap_seconds: float) -> Budgets:
        """The budgets of another configuration; tiers that are in both go on where they are."""
        budgets = Budgets(config, gap_seconds)
        budgets._tracks = {key: self._tracks.get(key, track) for key, track in budgets._tracks.items()}
        kept = {(name, scope) for name, scope, _ in budgets._tracks}
        budgets._states = tuple(state for state in self._states if (state.objective, state.scope) in kept)
        return budgets

    def evaluate(self, views: Views, now: float) -> tuple[TierChange, ...]:
        """Judges every tier at `now`; returns those that began or ended to fire by it."""
        changes: list[TierChange] = []
        states: list[BudgetState] = []
        for objective, budget in self._budgets.items():
            tiers = []
            for tier in budget.tiers:
                state, walked = self._walk(objective, tier, views, now)
                tiers.append(state)
                if walked.triggered or walked.resolved:
                    changes.append(TierChange(objective, state, walked))
            bad = _bad_share(views.measurement(replace(objective, window_seconds=HISTORY_SECONDS)))
            watched = min(HISTORY_SECONDS, views.watched_seconds(HISTORY_SECONDS) or 0.0)
            states.append(
                BudgetState(
                    objective.name,
                    objective.scope,
                    budget,
                    watched,
                    left_low=None if bad is None else 1.0 - budget.spent(bad.high, watched),
                    left_high=None if bad is None else 1.0 - budget.spent(bad.low, watched),
                    tiers=tuple(tiers),
                )
            )
        self._states = tuple(states)
        return tuple(changes)

    def shift(self, seconds: float) -> None:
        """Moves everything in time, after the wall clock was set by `seconds`."""
        self._tracks = {key: track.shifted(seconds) for key, track in self._tracks.items()}

    def save(self) -> list[dict[str, Any]]:
        """What must survive a restart, as plain JSON."""
        return [
            {"objective": name, "scope": scope, "tier": tier, **track.to_json()}
            for (name, scope, tier), track in self._tracks.items()
        ]

    def restore(self, saved: object) -> None:
        """Goes on where `save` left off. Raises StateError, with nothing changed, where the data are damaged."""
        if not isinstance(saved, list) or not all(isinstance(entry, Mapping) for entry in saved):
            raise StateError("saved error budgets are no list of statuses; every tier starts anew")
        found = {
            (str(entry.get("objective")), str(entry.get("scope")), str(entry.get("tier"))): Track.from_json(entry)
            for entry in saved
        }
        self._tracks = {key: found.get(key, track) for key, track in self._tracks.items()}

    def _walk(self, objective: Objective, tier: Tier, views: Views, now: float) -> tuple[TierState, Step]:
        key = (objective.name, objective.scope, tier.name)
        long, short = (
            _bad_share(views.measurement(replace(objective, window_seconds=float(seconds))))
            for seconds in (tier.long_seconds, tier.short_seconds)
        )
        # The unwatched part of a long window may have been good: a tier must not fire sooner than it says.
        watched = views.watched_seconds(float(tier.long_seconds))
        part = 1.0 if watched is None else min(1.0, watched / tier.long_seconds)
        times = Times(0.0, objective.clear_seconds, self.gap_seconds)
        walked = step(self._tracks[key], _signal(tier, long, short, part), now, times)
        self._tracks[key] = walked.track
        return TierState(tier, walked.after, walked.track.since(now), long, short), walked


def _signal(tier: Tier, long: BadShare | None, short: BadShare | None, watched_part: float) -> Signal:
    if long is None or short is None:
        return "unknown"
    burning = tier.judge((long.low * watched_part, long.high), (short.low, short.high))
    return "unknown" if burning is None else "bad" if burning else "good"


def _bad_share(measured: Measurement) -> BadShare | None:
    """None where the window does not say: no data, too few requests, too few that surely are promised ones."""
    if measured.condition != "ok" or measured.count - measured.outside.high < measured.needed:
        return None
    return BadShare(1.0 - measured.range.high, 1.0 - measured.range.low, round(measured.count))
