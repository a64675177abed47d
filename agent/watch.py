"""The pure engine: observations come in, the state at any moment goes out. No I/O, no clock of its own.

    watch = Watch(config)
    watch.observe(observation)        # in time order; whatever it holds, it never raises
    watch.evaluate(now)               # once per scrape interval: objectives and their incidents
    watch.state(now)                  # everything that is known, over the last `window_seconds`

The same engine runs live, over a recording, over a Prometheus server's history and inside tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent.config import Config
from agent.errors import PageError
from agent.indicators.memory.settings import TrendSettings
from agent.indicators.memory.watch import Growth, MemoryWatch, memory_state
from agent.indicators.pools import PoolFacts, TargetFacts, pool_facts, pool_state
from agent.indicators.system import system_state
from agent.model import (
    ClockStepObservation,
    FailureObservation,
    Observation,
    PageObservation,
    Problem,
    ProcessesObservation,
)
from agent.reading.page import PageReader
from agent.state import Legs, ProblemState, State, VerdictState
from agent.verdicts.budgets import TierChange
from agent.verdicts.causes import Cause
from agent.verdicts.explaining import cause_of
from agent.verdicts.objectives import Change, Key, Objectives, key_of
from agent.verdicts.problems import process_problems, service_problems
from agent.verdicts.steps import step_problems
from agent.windows.fleet import RETAIN_SECONDS, FleetWindows
from agent.windows.history import PoolHistory

DEFAULT_WINDOW_SECONDS = 300.0
CLOCK_TOLERANCE_SECONDS = 60.0
"""Observations may arrive this much out of order; one that is older says that the clock was set back."""
STALE_INTERVALS = 3.0
STALE_AT_LEAST_SECONDS = 15.0


class Watch:
    """One deployment under watch. `retain_seconds`: how far back a window may begin scrape-exact.

    `memory_time_scale` multiplies every duration of the memory watch: 1/60 shows in minutes what takes hours.
    """

    def __init__(self, config: Config, retain_seconds: float = RETAIN_SECONDS, memory_time_scale: float = 1.0) -> None:
        self.config = config
        self.windows = FleetWindows(_pool_of(config), retain_seconds)
        self.memory = MemoryWatch(
            work={name: window.work for name, window in self.windows.targets.items()},
            roles={target.name: pool.role for pool in config.pools for target in pool.targets},
            budget_bytes=config.memory.cache_budget_bytes,
            settings=TrendSettings(time_scale=memory_time_scale),
        )
        self._readers = {target: PageReader(prefix=config.prefix) for target in self.windows.targets}
        self.objectives = Objectives(config)
        self._causes: dict[Key, Cause] = {}
        self._ignored: dict[str, int] = {}
        self._newest = float("-inf")
        self.stale_after_seconds = max(STALE_AT_LEAST_SECONDS, STALE_INTERVALS * config.scrape.interval_seconds)

    @property
    def ignored(self) -> Mapping[str, int]:
        """Observations of targets that the configuration does not name, counted by target."""
        return self._ignored

    def observe(self, observation: Observation) -> None:
        """Takes one observation. A page that cannot be used becomes a problem of its target."""
        if isinstance(observation, ClockStepObservation):
            self._shift(observation.step_seconds)
            return
        target = observation.target
        if target not in self.windows.targets:
            if target in self._ignored or len(self._ignored) < 1000:
                self._ignored[target] = self._ignored.get(target, 0) + 1
            return
        if observation.t < self._newest - CLOCK_TOLERANCE_SECONDS:
            self._clock_went_back(observation.t)
        self._newest = max(self._newest, observation.t)
        if isinstance(observation, PageObservation):
            self._observe_page(observation)
        elif isinstance(observation, FailureObservation):
            self.windows.failed(target, observation.t, observation.error, observation.text)
            self.memory.page_failed(target)
        elif isinstance(observation, ProcessesObservation):
            self.memory.observe(observation)

    def _shift(self, seconds: float) -> None:
        self.windows.shift(seconds)
        self.memory.shift(seconds)
        self.objectives.shift(seconds)

    def _clock_went_back(self, t: float) -> None:
        """History stays as far away as it was, instead of lying in the future until the clock has caught up."""
        self._shift(t - self._newest)
        for window in self.windows.targets.values():
            window.health.clock_jumped = t
        self._newest = t

    def _observe_page(self, page: PageObservation) -> None:
        try:
            reading = self._readers[page.target].read(
                page.t, page.target, page.page, page.content_type, page.took_seconds
            )
        except PageError as error:
            self.windows.failed(page.target, page.t, "unusable_page", str(error))
        else:
            self.windows.take(reading)
            self.memory.page_seen(page.target, page.t)

    def state(self, now: float, *, since: float | None = None, window_seconds: float = DEFAULT_WINDOW_SECONDS) -> State:
        """Everything known at `now`, over the last `window_seconds`, or exactly from `since` to `now`."""
        begin = now - window_seconds if since is None else since
        facts = self._facts(begin, now)
        system = system_state(facts, self.config.dispatch, self.config.contract.prompt_tokens)
        growths = tuple(self.memory.growths(now))
        problems = self._problems(facts, system.legs, growths, begin, now)
        by_target: dict[str, list[str]] = {}
        for problem in problems:
            if problem.target:
                word = f"{problem.code}:{problem.engine}" if problem.engine else problem.code
                by_target.setdefault(problem.target, []).append(word)
        return State(
            at=now,
            window_s=now - begin,
            deployment=self.config.deployment,
            pools={pool.name: pool_state(_with_problems(pool, by_target)) for pool in facts},
            system=system,
            memory=tuple(memory_state(growth, self._page_within_hours) for growth in growths),
            verdicts=self._verdicts(now),
            problems=tuple(_shown(problem) for problem in problems),
        )

    def evaluate(self, now: float) -> tuple[Change | TierChange, ...]:
        """Judges every objective at `now`, once per scrape interval; returns the incidents that began or ended."""
        changes = self.objectives.evaluate(self.windows, self._facts, now)
        breached = [
            objective
            for objective in self.config.objectives
            if self.objectives.verdicts[key_of(objective)].word == "breached"
        ]
        if breached:
            facts = self._facts(now - DEFAULT_WINDOW_SECONDS, now)
            problems = [problem for pool in facts for problem in step_problems(pool, self._histories[pool.name], now)]
            for objective in breached:
                began = self.objectives.tracks[key_of(objective)].since(now)
                onset = began if began is not None else now
                cause = cause_of(objective, facts, self._histories, problems, onset)
                if cause is not None:
                    self._causes[key_of(objective)] = cause
        return changes

    @property
    def _histories(self) -> Mapping[str, PoolHistory]:
        return self.windows.pools

    @property
    def _page_within_hours(self) -> float:
        return self.config.memory.page_within_seconds / 3600.0

    def _problems(
        self, facts: list[PoolFacts], legs: Legs | None, growths: tuple[Growth, ...], begin: float, now: float
    ) -> list[Problem]:
        found = service_problems(facts, self._histories, legs, begin, now, self.stale_after_seconds)
        return found + process_problems(self.memory, growths, self._page_within_hours, now)

    def _verdicts(self, now: float) -> tuple[VerdictState, ...]:
        shown = []
        for verdict in self.objectives.states(now):
            cause = self._causes.get((verdict.objective, verdict.scope))
            if cause is not None and verdict.status != "ok":
                said = {"code": cause.code, "text": cause.text, "evidence": cause.evidence}
                verdict = replace(verdict, cause=said)
            shown.append(verdict)
        return tuple(shown)

    def _facts(self, begin: float, now: float) -> list[PoolFacts]:
        found = []
        for pool in self.config.pools:
            targets = {}
            for name, window in self.windows.in_pool(pool.name):
                age = window.age_seconds(now)
                fresh = age is not None and age <= self.stale_after_seconds
                targets[name] = TargetFacts(window, window.increases(begin, now), fresh, age, ())
            gpus = pool.gpus_per_target * len(targets) if pool.gpus_per_target is not None else None
            long = None
            if now - begin > self.windows.retain_seconds:
                long = self.windows.pools[pool.name].window(now - begin, now)
            found.append(pool_facts(pool.name, pool.role, gpus, targets, long))
        return found


def _pool_of(config: Config) -> dict[str, str]:
    return {target.name: pool.name for pool in config.pools for target in pool.targets}


def _with_problems(pool: PoolFacts, problems: Mapping[str, list[str]]) -> PoolFacts:
    targets = {
        name: replace(facts, problems=tuple(dict.fromkeys(problems.get(name, ()))))
        for name, facts in pool.targets.items()
    }
    return replace(pool, targets=targets)


def _shown(problem: Problem) -> ProblemState:
    return ProblemState(
        code=problem.code,
        target=problem.target or None,
        since=problem.since,
        text=problem.text,
        severity=problem.severity,
        pool=problem.pool or None,
        engine=problem.engine or None,
        process=problem.process or None,
        evidence=problem.evidence,
    )
