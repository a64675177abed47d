"""What one view of the page is made of. In: the live watch. Out: plain values, from which the page is a pure function.

History is asked for through a small interface, so that the page stands without a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.config import Objective
from agent.errors import StateError
from agent.outputs.live import Live
from agent.state import PoolState, ProblemState, State, TargetState
from agent.verdicts.alert import Alert

HISTORY_SECONDS = 86400.0
LINES_SECONDS = 60.0
MOST_LINES = 200
MOST_POINTS = 160
"""Of one line: as many as a card has pixels to tell apart."""


class Point(Protocol):
    """A moment of a series; `value` None where nothing is known."""

    @property
    def at(self) -> float: ...
    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


class History(Protocol):
    """What was measured in the past, by name: `tpot/decode`, `memory/decode-0/VLLM::EngineCore_DP0`."""

    def series(self, name: str, begin: float, end: float, most_points: int = ...) -> Sequence[Point]: ...


class RecentLines:
    """A history whose lines are read anew once a minute: more often they do not change, and reading one costs more
    than everything else on the page.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._read: dict[str, tuple[float, Sequence[Point]]] = {}

    def series(self, name: str, begin: float, end: float, most_points: int = MOST_POINTS) -> Sequence[Point]:
        found = self._read.get(name)
        if found is None or not 0 <= end - found[0] < LINES_SECONDS:
            found = self._read[name] = (end, self.history.series(name, begin, end, most_points))
            if len(self._read) > MOST_LINES:
                self._read = {name: found}
        return found[1]


@dataclass(frozen=True, slots=True)
class View:
    """`interval_seconds`: between two scrapes. `runbooks`: their base address. `history` None: nothing is kept."""

    state: State
    objectives: Sequence[Objective] = ()
    alerts: Sequence[Alert] = ()
    deployment: str | None = None
    mode: str = "central"
    interval_seconds: float = 5.0
    stale_after_seconds: float = 30.0
    note: str = ""
    runbooks: str | None = None
    evidence: bool = False
    history: History | None = None
    _lines: dict[str, Sequence[Point]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def now(self) -> float:
        return self.state.at

    def line(self, name: str) -> Sequence[Point]:
        """The last 24 h of a series; empty where there is none."""
        if self.history is None:
            return ()
        if name not in self._lines:
            try:
                self._lines[name] = self.history.series(name, self.now - HISTORY_SECONDS, self.now, MOST_POINTS)
            except StateError:  # noted where history is written; the page goes on without its lines
                self._lines[name] = ()
        return self._lines[name]

    def pools(self, *roles: str) -> Mapping[str, PoolState]:
        """The pools of these roles, by name."""
        return {name: pool for name, pool in self.state.pools.items() if pool.role in roles}

    def targets(self) -> Mapping[str, TargetState]:
        """All targets, the router's among them."""
        found = {name: target for pool in self.state.pools.values() for name, target in pool.targets.items()}
        router = self.state.system.router
        return found if router is None else {**router.targets, **found}

    def data_age_seconds(self) -> float | None:
        """Age of the newest page of any target; None before the first."""
        ages = [target.age_s for target in self.targets().values() if target.age_s is not None]
        return min(ages, default=None)

    def problems_of(self, target: str, engine: str) -> Sequence[ProblemState]:
        """Problems of one engine."""
        return [each for each in self.state.problems if (each.target, each.engine) == (target, engine)]


def view_of(live: Live) -> View:
    """The view now."""
    config = live.config
    return View(
        state=live.state(),
        objectives=config.objectives,
        alerts=live.alerts,
        deployment=config.deployment,
        mode=config.mode,
        interval_seconds=config.scrape.interval_seconds,
        stale_after_seconds=live.watch.facts.stale_after_seconds,
        note=live.note,
        runbooks=config.links.runbooks,
        evidence=live.evidence is not None,
        history=live.history,
    )
