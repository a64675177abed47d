"""All objectives of a deployment over time: windows come in at each evaluation, verdicts with their status go out.

    objectives = Objectives(config)
    steps = objectives.evaluate(windows, facts, now)     # what began or ended an incident just now
    objectives.states(now)                               # for the state
    saved = objectives.save(); objectives.restore(saved) # across a restart: nothing lost, nothing repeated

Evaluate once per scrape interval. Between evaluations nothing changes but the time that `resolved` is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.config import Config, Objective
from agent.errors import StateError
from agent.state import VerdictState
from agent.verdicts.budgets import Budgets, TierChange
from agent.verdicts.judged_by import Sources
from agent.verdicts.judging import Verdict, judge
from agent.verdicts.status import Step, Times, Track, step
from agent.verdicts.views import Estimates, Facts, Histories, Views
from agent.verdicts.warmup import WARM_UP_SECONDS, WarmUps
from agent.windows.fleet import FleetWindows

GAP_AT_LEAST_SECONDS = 120.0
GAP_INTERVALS = 4.0
"""Scrapes that may fail in a row before what was in between counts as unknown."""
FORMAT = 1

Key = tuple[str, str]
"""(objective's name, scope): what an incident is identified by."""


@dataclass(frozen=True, slots=True)
class Change:
    """An incident that just began or ended."""

    objective: Objective
    verdict: Verdict
    step: Step


class Objectives:
    """`gap_seconds`: how long there may be no certain verdict without a hold or a clear starting again."""

    def __init__(
        self, config: Config, gap_seconds: float | None = None, warm_up_seconds: float = WARM_UP_SECONDS
    ) -> None:
        self._config = config
        self.gap_seconds = gap_seconds if gap_seconds is not None else gap_of(config)
        self._warm_ups = WarmUps(warm_up_seconds)
        self._tracks: dict[Key, Track] = {key_of(objective): Track() for objective in config.objectives}
        self._verdicts: dict[Key, Verdict] = {}
        self._histories = Histories()
        self.budgets = Budgets(config, self.gap_seconds)

    @property
    def verdicts(self) -> Mapping[Key, Verdict]:
        """The last verdict of each objective with its sentence."""
        return self._verdicts

    @property
    def tracks(self) -> Mapping[Key, Track]:
        """Where each objective is on its walk."""
        return self._tracks

    def retarget(self, config: Config) -> None:
        """Judges by another configuration; what keeps its name and scope goes on where it is on its walk."""
        self._config = config
        self.gap_seconds = gap_of(config)
        self._tracks = {key: self._tracks.get(key, Track()) for key in map(key_of, config.objectives)}
        self._verdicts = {key: verdict for key, verdict in self._verdicts.items() if key in self._tracks}
        self._histories.forget()
        self.budgets = self.budgets.carried_over(config, self.gap_seconds)

    def evaluate(
        self,
        windows: FleetWindows,
        facts: Facts,
        now: float,
        estimates: Estimates | None = None,
        sources: Sources | None = None,
    ) -> tuple[Change | TierChange, ...]:
        """Judges every objective and error budget at `now`; returns the incidents that began or ended by it.

        `sources`: what else may be judged on than the pools' pages.
        """
        views = Views(self._config, windows, facts, now, self._warm_ups, self._histories, estimates, sources)
        self._warm_ups.note(windows.targets)
        changes: list[Change | TierChange] = []
        for objective in self._config.objectives:
            key = key_of(objective)
            verdict = self._judged(objective, views)
            walked = step(self._tracks[key], verdict.signal, now, times_of(objective, self.gap_seconds))
            self._verdicts[key], self._tracks[key] = verdict, walked.track
            if walked.triggered or walked.resolved:
                changes.append(Change(objective, verdict, walked))
        changes += self.budgets.evaluate(views, now)
        return tuple(changes)

    def states(self, now: float) -> tuple[VerdictState, ...]:
        """Every objective's last verdict and its status at `now`; none before the first evaluation."""
        return tuple(
            _state(objective, self._verdicts[key], self._tracks[key], now)
            for objective in self._config.objectives
            if (key := key_of(objective)) in self._verdicts
        )

    def shift(self, seconds: float) -> None:
        """Moves everything in time, after the wall clock was set by `seconds`."""
        self._tracks = {key: track.shifted(seconds) for key, track in self._tracks.items()}
        self._warm_ups.shift(seconds)
        self._histories.forget()
        self.budgets.shift(seconds)

    def save(self) -> dict[str, Any]:
        """What must survive a restart, as plain JSON."""
        tracks = [
            {"objective": name, "scope": scope, **track.to_json()} for (name, scope), track in self._tracks.items()
        ]
        return {"format": FORMAT, "tracks": tracks, "tiers": self.budgets.save()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Goes on where `save` left off. Objectives that are no longer configured are forgotten, new ones start at ok.

        Raises StateError, with nothing changed, where the data are of another form.
        """
        if not isinstance(saved, Mapping):
            raise StateError("saved objectives are not what this version writes; every objective starts anew")
        if saved.get("format") != FORMAT or not isinstance(saved.get("tracks"), list):
            raise StateError(f"saved objectives have format {saved.get('format')!r}, this version reads {FORMAT}")
        found: dict[Key, Track] = {}
        for entry in saved["tracks"]:
            if not isinstance(entry, Mapping):
                raise StateError("saved objectives hold something that is not a status; every objective starts anew")
            found[str(entry.get("objective")), str(entry.get("scope"))] = Track.from_json(entry)
        self.budgets.restore(saved.get("tiers", []))
        self._tracks = {key: found.get(key, track) for key, track in self._tracks.items()}

    def _judged(self, objective: Objective, views: Views) -> Verdict:
        promise = self._config.contract.prompt_tokens
        verdict = judge(objective, views.measurement(objective), promise)
        if verdict.word != "breached":
            return verdict
        cool = views.without_warm_up(objective)
        if cool is None or judge(objective, cool, promise).word == "breached":
            return verdict
        text = f"{verdict.text}; only because of servers in their first minutes, so it begins no incident"
        return replace(verdict, signal="unknown", text=text)


def key_of(objective: Objective) -> Key:
    """The objective's identity, which is its alert's too."""
    return objective.name, objective.scope


def gap_of(config: Config) -> float:
    """The longest gap that changes nothing, from how often pages are fetched."""
    return max(GAP_AT_LEAST_SECONDS, GAP_INTERVALS * config.scrape.interval_seconds)


def times_of(objective: Objective, gap_seconds: float) -> Times:
    """The objective's hold and clear times beside the gap that both may have."""
    return Times(objective.hold_seconds, objective.clear_seconds, gap_seconds)


def _state(objective: Objective, verdict: Verdict, track: Track, now: float) -> VerdictState:
    return VerdictState(
        objective=objective.name,
        scope=objective.scope,
        verdict=verdict.word,
        status=track.status(now),
        since=track.since(now),
        judged_on=verdict.judged_on,
        value=verdict.value,
        low=verdict.low,
        high=verdict.high,
        target=verdict.target,
        count=verdict.count,
        text=verdict.text,
    )
