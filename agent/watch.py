"""The pure engine: observations come in, the state at any moment goes out. No I/O, no clock of its own.

    watch = Watch(config)
    watch.observe(observation)        # in time order; whatever it holds, it never raises
    watch.evaluate(now)               # once per scrape interval: objectives and their incidents
    watch.state(now)                  # everything that is known, over the last `window_seconds`

The same engine runs live, over a recording, over a Prometheus server's history and inside tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent.config import Config
from agent.errors import PageError
from agent.findings import Findings
from agent.indicators.exporters import Exporters
from agent.indicators.facts import DeploymentFacts, pool_of, pools_of, roles_of
from agent.indicators.memory.settings import TrendSettings
from agent.indicators.memory.watch import MemoryWatch, memory_state
from agent.indicators.percentiles import Percentiles
from agent.indicators.percentiles.estimates import Estimates
from agent.indicators.percentiles.recovered import Recovered, followed_in
from agent.indicators.percentiles.targets import FOLLOWED_BY_INDICATOR, targets_of
from agent.indicators.pools import PoolFacts, pool_state, with_problems
from agent.indicators.requests import Disagreement, Requests, SpansView, disagreements, requests_state
from agent.indicators.requests.compare import page_gap_seconds
from agent.indicators.system import system_state
from agent.model import (
    OWN_TARGET,
    ClockStepObservation,
    FailureObservation,
    Observation,
    PageObservation,
    ProcessesObservation,
    SpansObservation,
)
from agent.reading.readers import readers_of
from agent.reading.routers import RouterReader
from agent.requests_state import RequestsState
from agent.saving import Kept
from agent.state import ProblemState, State
from agent.verdicts.budgets import TierChange
from agent.verdicts.drafting import untold
from agent.verdicts.explained import Explained
from agent.verdicts.incidents import Incidents
from agent.verdicts.inside import FromSums
from agent.verdicts.judged_by import sources_of
from agent.verdicts.objectives import Change, Objectives
from agent.verdicts.problems import shown
from agent.verdicts.spans import span_problems
from agent.windows.fleet import RETAIN_SECONDS, FleetWindows
from agent.windows.work import WorkDone

DEFAULT_WINDOW_SECONDS = 300.0
CLOCK_TOLERANCE_SECONDS = 60.0
"""Observations may arrive this much out of order; one that is older says that the clock was set back."""


class Watch:
    """One deployment under watch. `retain_seconds`: how far back a window may begin scrape-exact."""

    def __init__(self, config: Config, retain_seconds: float = RETAIN_SECONDS) -> None:
        self.config = config
        self.windows = FleetWindows(pool_of(config), retain_seconds, pools_of(config))
        self.facts = DeploymentFacts(config, self.windows)
        self.memory = MemoryWatch(
            work=self._work(),
            roles=roles_of(config),
            budget_bytes=config.memory.cache_budget_bytes,
            settings=TrendSettings(time_scale=config.memory.time_scale),
        )
        self._findings = self._new_findings()
        self._readers = readers_of(config)
        self.estimates = Estimates(targets_of(config))
        self.recovered = Recovered(targets_of(config))
        self.requests = Requests(config)
        self.exporters = Exporters(config, retain_seconds)
        self.memory.held_bytes = self.exporters.held_bytes
        self.objectives = Objectives(config)
        self.incidents = Incidents(config)
        self._kept = Kept(self.windows, self.memory, self.recovered, self.requests, self.objectives, self.incidents)
        self._explained = Explained(self.objectives)
        self._ignored: dict[str, int] = {}
        self._newest = float("-inf")
        self._plain: State | None = None

    @property
    def ignored(self) -> Mapping[str, int]:
        """Observations of targets that the configuration does not name, counted by target."""
        return self._ignored

    def retarget(self, config: Config) -> None:
        """Watches by another configuration from now on; what is no longer in it is forgotten.

        Histories of targets and pools that stay go on, and so do objectives and alerts. Not taken over: prefixes of
        names, the router's kind, the memory's time scale.
        """
        self.config = config
        self.windows.set_targets(pool_of(config), pools_of(config))
        self.facts = DeploymentFacts(self.config, self.windows)
        fresh = readers_of(self.config)
        self._readers = {name: self._readers.get(name, reader) for name, reader in fresh.items()}
        self.memory.retarget(self._work(), roles_of(config), config.memory.cache_budget_bytes)
        self._findings = self._new_findings()
        self.recovered.keep_targets(frozenset(self.windows.targets))
        self.estimates = Estimates(targets_of(config), self.estimates.reuse_seconds)
        self.requests.retarget(config)
        self.exporters.retarget(config)
        self.objectives.retarget(config)
        self.incidents.retarget(config)
        self._explained.forget_others()

    def observe(self, observation: Observation) -> None:
        """Takes one observation. A page that cannot be used becomes a problem of its target."""
        self._findings.forget()
        if isinstance(observation, ClockStepObservation):
            self._shift(observation.step_seconds)
            return
        target = observation.target
        if isinstance(observation, SpansObservation):
            self.requests.take(observation)  # of a target, or of a pool whose targets share a name
            return
        if target == OWN_TARGET and isinstance(observation, ProcessesObservation):
            self.memory.page_seen(OWN_TARGET, observation.t)
            self.memory.observe(observation)
            return
        if self.exporters.observe(observation):
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

    def _new_findings(self) -> Findings:
        cost = self.config.speculation.cost_per_draft_token
        return Findings(self.windows, self.facts, self.memory, self._page_within_hours, cost)

    def _work(self) -> dict[str, WorkDone]:
        """Target -> the work its engines have done; pdwatch's own process, watched as the others are, does none."""
        return {OWN_TARGET: WorkDone()} | {name: window.work for name, window in self.windows.targets.items()}

    def _shift(self, seconds: float) -> None:
        self.windows.shift(seconds)
        self.memory.shift(seconds)
        self.requests.shift(seconds)
        self.exporters.shift(seconds)
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
                pool, interval = certain
                self.recovered.take(pool, page.target, interval, self._followed(pool))
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

        Not `recover`: percentiles from the buckets alone, for callers that look at other things and want it cheap;
        they share one state per evaluation, which is at most a scrape interval old.
        """
        begin = now - window_seconds if since is None else since
        plain, oldest = self._plain, self.config.scrape.interval_seconds
        if (
            not recover
            and plain is not None
            and 0 <= now - plain.at < oldest
            and round(plain.window_s - (now - begin), 3) == 0
        ):
            return plain
        found = self._findings.over(begin, now)
        spans, requests = self._spans(found.pools, begin, now)
        problems = [*found.problems]
        problems += span_problems(self._disagreements(spans, found.pools, begin, now), begin)
        by_target: dict[str, list[str]] = {}
        for problem in problems:
            if problem.target:
                word = f"{problem.code}:{problem.engine}" if problem.engine else problem.code
                by_target.setdefault(problem.target, []).append(word)
        made = State(
            at=now,
            window_s=now - begin,
            deployment=self.config.deployment,
            pools={
                pool.name: pool_state(
                    with_problems(pool, by_target), self._percentiles(pool, begin, now) if recover else None
                )
                for pool in found.pools
            },
            system=system_state(
                found.pools,
                self.config.dispatch,
                self.config.contract.prompt_tokens,
                router=found.router,
                router_kind=self._router_kind(),
                traced=spans.system_ttft() if requests is not None and requests.complete else None,
            ),
            memory=tuple(memory_state(growth, self._page_within_hours) for growth in found.growths),
            verdicts=self._explained.verdicts(now),
            requests=requests,
            slowest_requests=spans.slowest(self.config.links.traces),
            exporters=self.exporters.states(begin, now),
            problems=tuple(shown(problem) for problem in problems),
        )
        self._plain = self._plain if recover else made
        return made

    def evaluate(self, now: float, more: Sequence[ProblemState] = ()) -> tuple[Change | TierChange, ...]:
        """Judges every objective and what must be told of at `now`; call it once per scrape interval.

        `more`: problems from outside the engine (pdwatch's own). Returns the incidents that began or ended; what is
        to be sent is in `incidents.alerts`.
        """
        sources = sources_of(self.facts, self.requests)
        changes = self.objectives.evaluate(self.windows, self.facts.pools, now, self._estimator_of(now), sources)
        found = self._findings.over(now - DEFAULT_WINDOW_SECONDS, now)
        self._plain = None
        self._explained.explain(self.config.objectives, found.pools, self.windows.pools, found.problems, now)
        self.incidents.evaluate(
            self._explained.verdicts(now),
            [*(shown(problem) for problem in found.problems), *more],
            now,
            sentences={key: verdict.text for key, verdict in self.objectives.verdicts.items()},
            budgets=self.objectives.budgets.states,
            untold=untold(found.pools),
        )
        return changes

    def saved(self, whole: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, document) of what must survive a restart; of the pools' slots only what changed since the last call.

        Not `whole`: without the large histories, which may be some minutes old after a kill.
        """
        yield from self._kept.saved(whole)

    def save_again(self) -> None:
        """What was given out last could not be written: the next `saved` gives it again."""
        self._kept.save_again()

    def restore(self, documents: Mapping[str, dict[str, Any]]) -> None:
        """Goes on where `saved` left off. What is damaged or of another version begins anew, everything else is taken
        up; then StateError names what was lost.
        """
        self._findings.forget()
        self._kept.restore(documents)

    def obsolete(self, key: str) -> bool:
        """True for the key of a saved document that nothing will ask for again."""
        return self._kept.obsolete(key)

    def _followed(self, pool: str) -> frozenset[str]:
        """The families whose distribution is recovered in a pool, or at the router."""
        return followed_in(next((known.role for known in self.config.pools if known.name == pool), "router"))

    def _percentiles(self, pool: PoolFacts, begin: float, now: float) -> Mapping[str, Percentiles]:
        if pool.long_seconds is not None:
            metrics = self._followed(pool.name)
            found = {metric: self.recovered.over(pool.name, metric, now - begin, now) for metric in metrics}
            return {metric: percentiles for metric, percentiles in found.items() if percentiles is not None}
        targets = [facts.gained.intervals for facts in pool.targets.values()]
        return self.estimates.of(pool.name, targets, now - begin, now, self._followed(pool.name))

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
                found = self.estimates.of(pool, targets, now - begin, now, self._followed(pool)).get(metric)
            return FromSums(found) if found is not None else None

        return estimator

    @property
    def _page_within_hours(self) -> float:
        return self.config.memory.page_within_seconds / 3600.0

    def _disagreements(
        self, spans: SpansView, facts: Sequence[PoolFacts], begin: float, now: float
    ) -> Sequence[Disagreement]:
        if self.requests.began is None:
            return ()
        edges = self.requests.edges(begin, now, page_gap_seconds(facts, begin, now))
        return disagreements(spans, {pool.name: pool.total for pool in facts}, edges)

    def _spans(self, facts: Sequence[PoolFacts], begin: float, now: float) -> tuple[SpansView, RequestsState | None]:
        """What the spans of the window say; None as a state where no span has ever come."""
        view = self.requests.system(begin, now)
        if self.requests.began is None and not view.requests:
            return view, None
        roles = {pool.name: pool.role for pool in facts}
        totals = {pool.name: pool.total for pool in facts}
        return view, requests_state(view, self.requests.counts(), roles, totals)

    def _router_kind(self) -> str | None:
        kinds = {reader.kind for reader in self._readers.values() if isinstance(reader, RouterReader)}
        return kinds.pop() if len(kinds) == 1 else None
