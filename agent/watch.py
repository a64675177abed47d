"""The pure engine: observations come in, the state at any moment goes out. No I/O, no clock of its own.

    watch = Watch(config)
    watch.observe(observation)        # in time order; whatever it holds, it never raises
    watch.evaluate(now)               # once per scrape interval: objectives and their incidents
    watch.state(now)                  # everything that is known, over the last `window_seconds`

The same engine runs live, over a recording, over a Prometheus server's history and inside tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.config import Config
from agent.errors import PageError
from agent.indicators.facts import ROUTER_POOL, DeploymentFacts, pool_of, roles_of
from agent.indicators.memory.settings import TrendSettings
from agent.indicators.memory.watch import Growth, MemoryWatch, memory_state
from agent.indicators.percentiles import Percentiles
from agent.indicators.percentiles.estimates import Estimates
from agent.indicators.percentiles.recovered import FOLLOWED, Recovered
from agent.indicators.percentiles.targets import FOLLOWED_BY_INDICATOR, targets_of
from agent.indicators.pools import PoolFacts, pool_state, with_problems
from agent.indicators.requests import Requests, SpansView, disagreements, requests_state
from agent.indicators.system import system_state
from agent.model import (
    ClockStepObservation,
    FailureObservation,
    Observation,
    PageObservation,
    Problem,
    ProcessesObservation,
    SpansObservation,
)
from agent.reading.readers import readers_of
from agent.reading.routers import RouterReader
from agent.requests_state import RequestsState
from agent.state import Legs, ProblemState, State, SystemState, SystemTtft, VerdictState
from agent.verdicts.budgets import TierChange
from agent.verdicts.causes import Cause
from agent.verdicts.explaining import cause_of
from agent.verdicts.incidents import Incidents
from agent.verdicts.inside import FromSums
from agent.verdicts.objectives import Change, Key, Objectives, key_of
from agent.verdicts.problems import process_problems, service_problems, shown
from agent.verdicts.router import router_problems
from agent.verdicts.spans import span_problems
from agent.windows.fleet import RETAIN_SECONDS, FleetWindows
from agent.windows.history import PoolHistory
from agent.windows.saved import obsolete as obsolete_window
from agent.windows.saved import restore as restore_windows
from agent.windows.saved import saved as saved_windows

DEFAULT_WINDOW_SECONDS = 300.0
CLOCK_TOLERANCE_SECONDS = 60.0
"""Observations may arrive this much out of order; one that is older says that the clock was set back."""


class Watch:
    """One deployment under watch. `retain_seconds`: how far back a window may begin scrape-exact."""

    def __init__(self, config: Config, retain_seconds: float = RETAIN_SECONDS) -> None:
        self.config = config
        self.windows = FleetWindows(pool_of(config), retain_seconds)
        self.facts = DeploymentFacts(config, self.windows)
        self.memory = MemoryWatch(
            work={name: window.work for name, window in self.windows.targets.items()},
            roles=roles_of(config),
            budget_bytes=config.memory.cache_budget_bytes,
            settings=TrendSettings(time_scale=config.memory.time_scale),
        )
        self._readers = readers_of(config)
        self.estimates = Estimates(targets_of(config))
        self.recovered = Recovered(targets_of(config))
        self.requests = Requests(config)
        self.objectives = Objectives(config)
        self.incidents = Incidents(config)
        self._causes: dict[Key, Cause] = {}
        self._ignored: dict[str, int] = {}
        self._newest = float("-inf")

    @property
    def ignored(self) -> Mapping[str, int]:
        """Observations of targets that the configuration does not name, counted by target."""
        return self._ignored

    def retarget(self, config: Config) -> None:
        """Watches the targets of another configuration with the same pools; what is no longer there is forgotten.

        Histories of targets that stay go on, and so do the pools' own. Everything else of `config` is not taken over.
        """
        self.config = replace(self.config, pools=config.pools, router=config.router)
        self.windows.set_targets(pool_of(self.config))
        self.facts = DeploymentFacts(self.config, self.windows)
        fresh = readers_of(self.config)
        self._readers = {name: self._readers.get(name, reader) for name, reader in fresh.items()}
        work = {name: window.work for name, window in self.windows.targets.items()}
        self.memory.retarget(work, roles_of(self.config))
        self.recovered.keep_targets(frozenset(work))
        self.estimates.forget()

    def observe(self, observation: Observation) -> None:
        """Takes one observation. A page that cannot be used becomes a problem of its target."""
        if isinstance(observation, ClockStepObservation):
            self._shift(observation.step_seconds)
            return
        target = observation.target
        if isinstance(observation, SpansObservation):
            self.requests.take(observation)  # of a target, or of a pool whose targets share a name
            return
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
        self.requests.shift(seconds)
        self.objectives.shift(seconds)
        self.incidents.shift(seconds)
        self.recovered.shift(seconds)
        self.estimates.forget()

    def _clock_went_back(self, t: float) -> None:
        """History stays as far away as it was, instead of lying in the future until the clock has caught up."""
        self._shift(t - self._newest)
        for window in self.windows.targets.values():
            window.health.clock_jumped = t
        self._newest = t

    def _observe_page(self, page: PageObservation) -> None:
        window = self.windows.targets[page.target]
        if window.latest is not None and page.t <= window.latest.t:
            # Not even read: the reader tells what changed since the last page it saw, so the next page brings this too.
            window.health.clock_jumped = page.t
            return
        try:
            reading = self._readers[page.target].read(
                page.t, page.target, page.page, page.content_type, page.took_seconds
            )
        except PageError as error:
            self.windows.failed(page.target, page.t, "unusable_page", str(error))
        else:
            certain = self.windows.take(reading)
            if certain is not None:
                self.recovered.take(certain[0], page.target, certain[1])
            self.memory.page_seen(page.target, page.t)

    def state(
        self,
        now: float,
        *,
        since: float | None = None,
        window_seconds: float = DEFAULT_WINDOW_SECONDS,
        recover: bool = True,
    ) -> State:
        """Everything known at `now`, over the last `window_seconds`, or exactly from `since` to `now`.

        Not `recover`: percentiles from the buckets alone, for callers that look at other things and want it cheap.
        """
        begin = now - window_seconds if since is None else since
        facts = self.facts.pools(begin, now)
        spans, requests = self._spans(facts, begin, now)
        traced = spans.system_ttft() if requests is not None and requests.complete else None
        system = self._system(facts, begin, now, traced)
        growths = tuple(self.memory.growths(now))
        problems = self._problems(facts, system.legs, growths, begin, now)
        problems += span_problems(disagreements(spans, {pool.name: pool.total for pool in facts}), begin)
        by_target: dict[str, list[str]] = {}
        for problem in problems:
            if problem.target:
                word = f"{problem.code}:{problem.engine}" if problem.engine else problem.code
                by_target.setdefault(problem.target, []).append(word)
        return State(
            at=now,
            window_s=now - begin,
            deployment=self.config.deployment,
            pools={
                pool.name: pool_state(
                    with_problems(pool, by_target), self._percentiles(pool, begin, now) if recover else None
                )
                for pool in facts
            },
            system=system,
            memory=tuple(memory_state(growth, self._page_within_hours) for growth in growths),
            verdicts=self._verdicts(now),
            requests=requests,
            slowest_requests=spans.slowest(self.config.links.traces),
            problems=tuple(shown(problem) for problem in problems),
        )

    def evaluate(self, now: float, more: Sequence[ProblemState] = ()) -> tuple[Change | TierChange, ...]:
        """Judges every objective and what must be told of at `now`; call it once per scrape interval.

        `more`: problems from outside the engine (pdwatch's own). Returns the incidents that began or ended; what is
        to be sent is in `incidents.alerts`.
        """
        changes = self.objectives.evaluate(self.windows, self.facts.pools, now, self._estimator_of(now))
        begin = now - DEFAULT_WINDOW_SECONDS
        facts = self.facts.pools(begin, now)
        system = self._system(facts, begin, now)
        problems = self._problems(facts, system.legs, tuple(self.memory.growths(now)), begin, now)
        self._explain(facts, problems, now)
        self.incidents.evaluate(
            self._verdicts(now),
            [*(shown(problem) for problem in problems), *more],
            now,
            sentences={key: verdict.text for key, verdict in self.objectives.verdicts.items()},
            budgets=self.objectives.budgets.states,
        )
        return changes

    def saved(self, whole: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, document) of what must survive a restart; of the pools' slots only what changed since the last call.

        Not `whole`: without the large histories, which may be some minutes old after a kill.
        """
        yield "objectives", self.objectives.save()
        yield "incidents", self.incidents.save()
        yield from saved_windows(self.windows)
        if whole:
            yield from self.memory.saved()
            yield from self.recovered.saved()
            yield from self.requests.save()

    def save_again(self) -> None:
        """What was given out last could not be written: the next `saved` gives it again."""
        for history in self.windows.pools.values():
            history.fine.all_changed()
            history.coarse.all_changed()

    def restore(self, documents: Mapping[str, dict[str, Any]]) -> None:
        """Goes on where `saved` left off. Raises StateError where a document is damaged or of another version."""
        restore_windows(self.windows, documents)
        self.memory.restore(documents)
        self.recovered.restore(documents)
        self.requests.restore(documents)
        if "objectives" in documents:
            self.objectives.restore(documents["objectives"])
        if "incidents" in documents:
            self.incidents.restore(documents["incidents"])

    def obsolete(self, key: str) -> bool:
        """True for the key of a saved document that nothing will ask for again."""
        return obsolete_window(self.windows, key) or self.memory.obsolete(key) or self.requests.obsolete(key)

    def _explain(self, facts: list[PoolFacts], problems: list[Problem], now: float) -> None:
        """Finds the cause of every objective that is broken; it is kept until the objective is well again."""
        for objective in self.config.objectives:
            key = key_of(objective)
            track = self.objectives.tracks[key]
            if self.objectives.verdicts[key].word == "breached":
                began = track.since(now)
                onset = began if began is not None else now
                cause = cause_of(objective, facts, self._histories, problems, onset)
                if cause is not None:
                    self._causes[key] = cause
            elif track.status(now) == "ok":
                self._causes.pop(key, None)

    def _percentiles(self, pool: PoolFacts, begin: float, now: float) -> Mapping[str, Percentiles]:
        if pool.long_seconds is not None:
            found = {metric: self.recovered.over(pool.name, metric, now - begin, now) for metric in FOLLOWED}
            return {metric: percentiles for metric, percentiles in found.items() if percentiles is not None}
        targets = [facts.gained.intervals for facts in pool.targets.values()]
        return self.estimates.of(pool.name, targets, now - begin, now)

    def _estimator_of(self, now: float) -> Callable[[str, str, float], FromSums | None]:
        """For objectives on percentiles and shares, whose windows may have any length."""
        asked = {o.indicator for o in self.config.objectives if o.statistic != "mean"} & FOLLOWED_BY_INDICATOR.keys()
        wanted = {FOLLOWED_BY_INDICATOR[indicator] for indicator in asked}

        def estimator(pool: str, metric: str, begin: float) -> FromSums | None:
            if metric not in wanted:
                return None
            if now - begin > self.windows.retain_seconds:
                found = self.recovered.over(pool, metric, now - begin, now)
            else:
                targets = [window.increases(begin, now).intervals for _, window in self.windows.in_pool(pool)]
                found = self.estimates.of(pool, targets, now - begin, now).get(metric)
            return FromSums(found) if found is not None else None

        return estimator

    @property
    def _histories(self) -> Mapping[str, PoolHistory]:
        return self.windows.pools

    @property
    def _page_within_hours(self) -> float:
        return self.config.memory.page_within_seconds / 3600.0

    def _spans(self, facts: list[PoolFacts], begin: float, now: float) -> tuple[SpansView, RequestsState | None]:
        """What the spans of the window say; None as a state where no span has ever come."""
        view = self.requests.system(begin, now)
        if self.requests.began is None and not view.requests:
            return view, None
        roles = {pool.name: pool.role for pool in facts}
        totals = {pool.name: pool.total for pool in facts}
        return view, requests_state(view, self.requests.counts(), roles, totals)

    def _problems(
        self, facts: list[PoolFacts], legs: Legs | None, growths: tuple[Growth, ...], begin: float, now: float
    ) -> list[Problem]:
        found = service_problems(facts, self._histories, legs, begin, now, self.facts.stale_after_seconds)
        router = self.facts.router(begin, now)
        if router is not None:
            found += router_problems(router, self._histories[ROUTER_POOL], now, self.facts.stale_after_seconds)
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

    def _system(
        self, facts: list[PoolFacts], begin: float, now: float, traced: SystemTtft | None = None
    ) -> SystemState:
        return system_state(
            facts,
            self.config.dispatch,
            self.config.contract.prompt_tokens,
            router=self.facts.router(begin, now),
            router_kind=self._router_kind(),
            traced=traced,
        )

    def _router_kind(self) -> str | None:
        kinds = {reader.kind for reader in self._readers.values() if isinstance(reader, RouterReader)}
        return kinds.pop() if len(kinds) == 1 else None
