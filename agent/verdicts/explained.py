"""Verdicts with their causes: objectives and what was found come in, each broken objective's cause stays and goes out.

A cause is looked for at every evaluation while an objective is broken, and kept until the objective is well again: what
explains an incident may leave the window before the incident ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agent.config import Objective
from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.state import VerdictState
from agent.verdicts.causes import Cause
from agent.verdicts.explaining import cause_of
from agent.verdicts.objectives import Key, Objectives, key_of
from agent.windows.history import PoolHistory


class Explained:
    """The verdicts of `objectives`, explained."""

    def __init__(self, objectives: Objectives) -> None:
        self._objectives = objectives
        self._causes: dict[Key, Cause] = {}

    def explain(
        self,
        configured: Iterable[Objective],
        pools: Sequence[PoolFacts],
        histories: Mapping[str, PoolHistory],
        problems: Sequence[Problem],
        now: float,
    ) -> None:
        """Finds the cause of every objective that is broken at `now`; call it after the objectives were judged."""
        for objective in configured:
            key = key_of(objective)
            track = self._objectives.tracks[key]
            if self._objectives.verdicts[key].word == "breached":
                began = track.since(now)
                cause = cause_of(objective, pools, histories, problems, began if began is not None else now)
                if cause is not None:
                    self._causes[key] = cause
            elif track.status(now) == "ok":
                self._causes.pop(key, None)

    def forget_others(self) -> None:
        """Lets go of causes whose objective is no longer configured."""
        self._causes = {key: cause for key, cause in self._causes.items() if key in self._objectives.tracks}

    def verdicts(self, now: float) -> tuple[VerdictState, ...]:
        """Every objective's last verdict with its status at `now`, and its cause while it is not ok."""
        shown = []
        for verdict in self._objectives.states(now):
            cause = self._causes.get((verdict.objective, verdict.scope))
            if cause is not None and verdict.status != "ok":
                said = {"code": cause.code, "text": cause.text, "evidence": cause.evidence}
                verdict = replace(verdict, cause=said)
            shown.append(verdict)
        return tuple(shown)
