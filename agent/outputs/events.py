"""What changed from one state to the next. In: states one after another. Out: events, and lines of log about them.

An event is told when something begins, changes or ends; in between there is silence. Kinds: `problem`, `verdict` (an
objective's judgement or its status changed) and `page` (its incident began or ended: somebody is called, or let go).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.state import ProblemState, State, VerdictState

QUIET_SECONDS = 600.0
"""The same thing is logged at most this often, however often it comes and goes."""
MOST_LINES = 20
"""Lines of log for one state; more are only counted."""

log = logging.getLogger("pdwatch")

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}

Line = dict[str, object]


@dataclass(frozen=True, slots=True)
class ProblemEvent:
    """One problem that began, or ended (as it last was), at `t`."""

    t: float
    change: Literal["began", "ended"]
    problem: ProblemState

    @property
    def level(self) -> int:
        """Of its line of log."""
        return _LEVELS[self.problem.severity] if self.change == "began" else logging.INFO

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same thing happening again."""
        return identity(self.problem), self.change

    def words(self) -> str:
        """The event for people."""
        over = "" if self.change == "began" else "over: "
        return f"{over}{self.problem.code}: {self.problem.text}"

    def line(self) -> Line:
        """The event in its public form."""
        problem = self.problem
        about = {name: getattr(problem, name) for name in ("code", "severity", "pool", "target", "engine", "process")}
        head: Line = {"type": "event", "t": self.t, "kind": "problem", "change": self.change}
        return {**head, **about, "since": problem.since, "text": problem.text}


@dataclass(frozen=True, slots=True)
class VerdictEvent:
    """An objective whose verdict or status is another than before (kind `page`: whose incident began or ended)."""

    t: float
    kind: Literal["verdict", "page"]
    verdict: VerdictState
    before: VerdictState | None

    @property
    def level(self) -> int:
        """Of its line of log."""
        return logging.ERROR if self.kind == "page" and self.verdict.status == "firing" else logging.INFO

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same thing happening again."""
        return self.kind, self.verdict.objective, self.verdict.scope, self.verdict.verdict, self.verdict.status

    def words(self) -> str:
        """The event for people."""
        verdict = self.verdict
        said = f": {verdict.text}" if verdict.text else ""
        return f"{self.kind}: {verdict.objective} of {verdict.scope} is {verdict.verdict}, {verdict.status}{said}"

    def line(self) -> Line:
        """The event in its public form."""
        names = ("objective", "scope", "verdict", "status", "since", "judged_on", "value", "low", "high", "target")
        head: Line = {"type": "event", "t": self.t, "kind": self.kind}
        before = None if self.before is None else {"verdict": self.before.verdict, "status": self.before.status}
        rest: Line = {name: getattr(self.verdict, name) for name in (*names, "count", "cause", "text")}
        return {**head, **rest, "before": before}


Event = ProblemEvent | VerdictEvent


def identity(problem: ProblemState) -> tuple[object, ...]:
    """What makes two problems of two states the same one; texts and severities may change while it stands."""
    about = problem.evidence.get("metric") or problem.evidence.get("where")
    return problem.code, problem.pool, problem.target, problem.engine, problem.process, about


class Changes:
    """Remembers the problems and verdicts of the last state."""

    def __init__(self) -> None:
        self._problems: dict[tuple[object, ...], ProblemState] = {}
        self._verdicts: dict[tuple[str, str], VerdictState] = {}

    def take(self, state: State) -> list[Event]:
        """What is new, other or over since the state before."""
        return [*self._of_problems(state), *self._of_verdicts(state)]

    def _of_problems(self, state: State) -> Iterator[ProblemEvent]:
        before, now = self._problems, {identity(problem): problem for problem in state.problems}
        self._problems = now
        for key, problem in now.items():
            if key not in before:
                yield ProblemEvent(state.at, "began", problem)
        for key, problem in before.items():
            if key not in now:
                yield ProblemEvent(state.at, "ended", problem)

    def _of_verdicts(self, state: State) -> Iterator[VerdictEvent]:
        for verdict in state.verdicts:
            key = verdict.objective, verdict.scope
            before = self._verdicts.get(key)
            self._verdicts[key] = verdict
            if before is None or (before.verdict, before.status) != (verdict.verdict, verdict.status):
                yield VerdictEvent(state.at, "verdict", verdict, before)
            was_firing = before is not None and before.status == "firing"
            if was_firing != (verdict.status == "firing"):
                yield VerdictEvent(state.at, "page", verdict, before)


class EventLog:
    """Writes events into the log: each thing rarely, and never many lines at once."""

    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], float] = {}

    def write(self, events: Sequence[Event]) -> None:
        """Logs the events of one state."""
        if not events:
            return
        now = events[0].t
        self._said = {key: t for key, t in self._said.items() if abs(now - t) < QUIET_SECONDS}
        fresh = [event for event in events if event.key not in self._said]
        for event in fresh[:MOST_LINES]:
            self._said[event.key] = now
            log.log(event.level, "%s", event.words())
        if len(fresh) > MOST_LINES:
            log.warning("and %d more changes; all stand in the state", len(fresh) - MOST_LINES)
