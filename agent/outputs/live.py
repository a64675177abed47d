"""The watch while it runs, as everything that shows it sees it. In: observations. Out: states, texts and samples.

A state costs milliseconds to compute, so all viewers within a second share one; a viewer never delays the taking of
observations by more than that. What breaks in here is noted and never ends the process.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from agent import __version__
from agent.config import Config
from agent.indicators.speculation import padded_drafts
from agent.model import ClockStepObservation, Observation
from agent.outputs.defects import Defects
from agent.outputs.delivery.figures import DeliveryFigures
from agent.outputs.evidence.evidence import Evidence
from agent.outputs.history import History
from agent.outputs.own import OwnFigures, ReloadFigures, cpu_seconds, resident_bytes
from agent.outputs.processes_json import ProcessReadings
from agent.outputs.sample import Sample
from agent.outputs.samples import Snapshot, samples
from agent.outputs.state_json import state_text
from agent.state import ProblemState, State
from agent.verdicts.alert import Alert
from agent.watch import DEFAULT_WINDOW_SECONDS, Watch

if TYPE_CHECKING:
    from agent.outputs.discovered import Discovered
    from agent.outputs.reload_route import Reload
    from agent.sources.traces import TraceCounts
    from agent.sources.traces_forward import ForwardCounts

SHARED_SECONDS = 1.0
REUSE_SECONDS = 15.0
"""Percentiles are solved again for viewers at most this often."""
MOST_WINDOWS = 16
"""Windows that are kept at once; each asked for by somebody within the last second."""
OVERLOADED_LAG_SECONDS = 1.0


@dataclass(slots=True)
class _Made:
    at: float
    state: State
    text: str | None = None


class Live:
    """`wall` and `steady` give unix and monotonic seconds; `loop_lag` and `skipped_scrapes` are asked when needed."""

    def __init__(self, watch: Watch, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self.watch = watch
        self.config = watch.config
        self.defects = Defects(wall)
        self.loop_lag: Callable[[], float | None] = lambda: None
        self.skipped_scrapes: Callable[[], int | None] = lambda: None
        self.exports: Callable[[], Mapping[str, int]] = dict
        self.listening = ""
        self.note = ""
        """A sentence about what is being shown, for people: where the data come from when they are not live."""
        self.alerts: tuple[Alert, ...] = ()
        """What is to be told of now, as of the last evaluation, each with the place of its evidence."""
        self.evidence: Evidence | None = None
        self.delivery: DeliveryFigures | None = None
        self.spans: TraceCounts | None = None
        self.forwarded: ForwardCounts | None = None
        self.history: History | None = None
        self.local_processes = ProcessReadings(wall)
        self.discovered: Discovered | None = None
        self.reload: Reload | None = None
        self.reloads: Callable[[], ReloadFigures | None] = lambda: None
        self.more_problems: list[Callable[[float], Iterable[ProblemState]]] = []
        """Asked at each evaluation and for each state: what parts of pdwatch have to say of themselves, at a moment."""
        watch.estimates.reuse_seconds = REUSE_SECONDS
        self._wall, self._steady = wall, steady
        self._started = wall()
        self._made: dict[float, _Made] = {}
        self._build_seconds: float | None = None
        self._observations = 0
        self._heard: set[str] = set()
        self._padded: dict[str, float] = {}

    def retarget(self, config: Config) -> None:
        """Watches by another configuration from now on; what is in both goes on."""
        self.watch.retarget(config)
        self._heard.intersection_update(self.watch.windows.targets)
        self.config = config
        if self.evidence is not None:
            self.evidence.config = config
        self._made.clear()

    def observe_local(self, observation: Observation) -> None:
        """Takes what was read of this host itself, which another pdwatch may ask for."""
        self.local_processes.note(observation)
        self.observe(observation)

    def observe(self, observation: Observation) -> None:
        """Takes one observation in. Never raises."""
        self._observations += 1
        if self.evidence is not None:
            self.evidence.observe(observation)
        if not isinstance(observation, ClockStepObservation) and observation.target in self.watch.windows.targets:
            self._heard.add(observation.target)
        try:
            self.watch.observe(observation)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one page, the others go on
            self.defects.note("observe", error)

    def evaluate(self) -> None:
        """Judges the objectives now; to be called once per scrape interval. Never raises."""
        now = self._wall()
        try:
            self.watch.evaluate(now, tuple(self._own_problems(now)))
        except Exception as error:  # noqa: BLE001 - no verdict this time; it is noted, and the data go on coming in
            self.defects.note("evaluate", error)

    @property
    def ready(self) -> bool:
        """Every target has been asked once, whatever it answered, and whoever is asked where targets are."""
        if self.discovered is not None and not self.discovered.answered:
            return False
        return self._heard.issuperset(self.watch.windows.targets)

    def now(self) -> float:
        """Unix seconds."""
        return self._wall()

    def state(self, window_seconds: float = DEFAULT_WINDOW_SECONDS) -> State:
        """The state now, at most a second old."""
        return self._current(window_seconds).state

    def plain_state(self) -> State:
        """The state now with percentiles from buckets alone: cheap, for what looks at verdicts and problems."""
        state = self.watch.state(self._wall(), recover=False)
        return replace(state, problems=(*state.problems, *self._own_problems(state.at)))

    def text(self, window_seconds: float = DEFAULT_WINDOW_SECONDS) -> str:
        """The same as one line of JSON."""
        made = self._current(window_seconds)
        if made.text is None:
            made.text = state_text(made.state)
        return made.text

    def samples(self) -> list[Sample]:
        """All samples of the metrics page, now."""
        state = self.state()
        totals = {name: history.total for name, history in self.watch.windows.pools.items()}
        for name, pool in state.pools.items():
            if pool.speculation is not None:
                # Padding is a difference of two counts that grow at different moments: it may seem to shrink.
                padded = padded_drafts(totals[name], pool.role)
                self._padded[name] = max(padded, self._padded.get(name, 0.0))
        recovered, kept = tuple(self.watch.recovered.histograms()), self.watch.requests.exemplars
        exemplars = partial(kept.of, now=state.at)
        return list(samples(Snapshot(state, totals, self._padded, self.own(), recovered, exemplars)))

    def own(self) -> OwnFigures:
        """What pdwatch costs and what went wrong in it, now."""
        return OwnFigures(
            version=__version__,
            python=platform.python_version(),
            started=self._started,
            cpu_seconds=cpu_seconds(),
            resident_bytes=resident_bytes(),
            loop_lag_seconds=self.loop_lag(),
            state_build_seconds=self._build_seconds,
            observations=self._observations,
            ignored_observations=sum(self.watch.ignored.values()),
            skipped_scrapes=self.skipped_scrapes(),
            errors=self.defects.counts,
            exports=self.exports(),
            delivery=self.delivery,
            spans=self.spans,
            forwarded=self.forwarded,
            discovery=self.discovered.figures() if self.discovered is not None else None,
            reload=self.reloads(),
        )

    def _current(self, window_seconds: float) -> _Made:
        begin = self._steady()
        made = self._made.get(window_seconds)
        if made is not None and begin - made.at < SHARED_SECONDS:
            return made
        state = self.watch.state(self._wall(), window_seconds=window_seconds)
        state = replace(state, problems=(*state.problems, *self._own_problems(state.at)))
        end = self._steady()
        self._build_seconds = end - begin
        if len(self._made) >= MOST_WINDOWS:
            self._made = {window: kept for window, kept in self._made.items() if end - kept.at < SHARED_SECONDS}
        self._made[window_seconds] = made = _Made(end, state)
        return made

    def _own_problems(self, now: float) -> Iterator[ProblemState]:
        yield from self.defects.problems()
        yield from self._overload(now)
        for asked in self.more_problems:
            yield from asked(now)

    def _overload(self, now: float) -> list[ProblemState]:
        lag = self.loop_lag()
        if lag is None or lag <= OVERLOADED_LAG_SECONDS:
            return []
        text = f"pdwatch itself was {lag:.1f} s late within the last minute: it has too little CPU or too many targets"
        return [ProblemState("agent_overloaded", None, now, text, "warning", evidence={"loop_lag_seconds": lag})]
