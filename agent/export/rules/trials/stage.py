"""The stage that trials are played on. In: the configuration. Out: places, everyday phases, series of a whole story.

Latencies of the everyday are well within the configured objectives, so that a story about something else is about
nothing but that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from agent.config import Config, Objective, Pool
from agent.export.rules.legs import edges_used, legs_of
from agent.export.rules.model import Alert, Family
from agent.export.rules.promql import number
from agent.export.rules.trials.model import Fired
from agent.export.rules.trials.world import Phase, Place, played

STEP_SECONDS = 30.0
EVERYDAY_PART = 0.375
EVERYDAY_TTFT_SECONDS, EVERYDAY_TPOT_SECONDS, EVERYDAY_TOKENS_PER_STEP = 0.5, 0.0078125, 2

Story = Mapping[str, Sequence[Phase]]
"""Pool -> what its engines do, one phase after another."""


class Stage:
    """One configuration's world and alerts."""

    def __init__(self, config: Config, family: Family) -> None:
        self.config = config
        self._alerts = tuple(family.alerts())
        self._edges = _edges(config)
        self.ttft = self._everyday("ttft", EVERYDAY_TTFT_SECONDS)
        self.step = EVERYDAY_TOKENS_PER_STEP * self._everyday("tpot", EVERYDAY_TPOT_SECONDS)

    def alert(self, name: str, **labels: str) -> Alert:
        """The alert of this name with these labels."""
        wanted = labels.items()
        return next(alert for alert in self._alerts if alert.name == name and wanted <= alert.labels.items())

    def has(self, name: str, **labels: str) -> bool:
        """Whether there is such an alert."""
        wanted = labels.items()
        return any(alert.name == name and wanted <= alert.labels.items() for alert in self._alerts)

    def fired(self, name: str, told: Mapping[str, str] | None = None, /, **labels: str) -> Fired:
        """The alert that fires; labels that its expression gives are told apart from its own."""
        own = {label: value for label, value in labels.items() if label not in ("target", "engine")}
        subjects = {label: value for label, value in labels.items() if label in ("target", "engine")}
        return Fired(self.alert(name, **own), subjects, None if told is None else {**labels, **told})

    def target(self, pool: Pool, index: int = 0) -> str:
        """The name of one target of the pool."""
        if not pool.targets:  # they are found, under names that nobody knows yet
            return f"{pool.name}-{index}"
        return pool.targets[min(index, len(pool.targets) - 1)].name

    def place(self, pool: Pool, target: int = 0, engine: int = 0) -> Place:
        """One engine. A pool with a single target has no second."""
        return Place(pool.name, pool.role, self.target(pool, target), str(engine), self.config.deployment)

    def day(self, steps: int, **other: Any) -> Phase:
        """The everyday, but for what is given."""
        return replace(Phase(steps, ttft=self.ttft, step=self.step), **other)

    def series(self, story: Story, engines: Iterable[Place] | None = None) -> dict[str, str]:
        """Series of one engine of each pool (or of `engines`), all through the story."""
        places = [self.place(pool) for pool in self.config.pools] if engines is None else list(engines)
        found: dict[str, str] = {}
        for place in places:
            found |= self.played(place, story[place.pool])
        return found

    def played(self, place: Place, phases: Sequence[Phase]) -> dict[str, str]:
        """Series of one engine."""
        return played(place, phases, self.config.prefix, self._edges)

    def levels(self, pool: Pool, part: float) -> dict[str, float]:
        """TTFT and step time of one pool so that every mean objective is at `part` of its target."""
        found: dict[str, float] = {}
        for objective in self.config.objectives:
            if objective.statistic != "mean" or objective.scope not in ("system", pool.name):
                continue
            legs = legs_of(objective, self.config)
            if objective.indicator == "ttft" and any(pool.name in leg.pools for leg in legs):
                found["ttft"] = objective.target * part / len(legs)
            if objective.indicator == "tpot" and any(pool.name in leg.pools for leg in legs):
                found["step"] = EVERYDAY_TOKENS_PER_STEP * objective.target * part
        return found

    def broken(self, pool: Pool) -> dict[str, float]:
        """One pool so slow that it breaks the mean objectives of its scope and of the system by itself."""
        return {name: 4 * value for name, value in self.levels(pool, 1.0).items()} if pool.role != "prefill" else {}

    def shown(self, objective: Objective, part: float) -> str:
        """A mean at `part` of its target as Prometheus writes a duration."""
        value = objective.target * part
        if value >= 1:
            return f"{value:.4g}s"
        return f"{value * 1000:.4g}ms"

    def _everyday(self, indicator: str, usual: float) -> float:
        targets = [
            objective.target for objective in self.config.objectives if objective.indicator in (indicator, "e2e")
        ]
        return min([usual, *(EVERYDAY_PART * target for target in targets)])


def marks(phases: Sequence[Phase]) -> list[float]:
    """When the last step of each phase is, in seconds."""
    found, steps = [], 0
    for phase in phases:
        steps += phase.steps
        found.append((steps - 1) * STEP_SECONDS)
    return found


def _edges(config: Config) -> dict[str, list[str]]:
    """Indicator -> edges of the buckets that objectives read, as vLLM prints them."""
    used: dict[str, dict[Decimal, None]] = {}
    for objective in config.objectives:
        if objective.statistic != "mean":
            from_legs = edges_used(legs_of(objective, config), Decimal(str(objective.target)))
            for leg, edge in from_legs:
                used.setdefault(leg.indicator, {})[edge] = None
    return {
        indicator: [number(edge) if edge % 1 else f"{number(edge)}.0" for edge in edges]
        for indicator, edges in used.items()
    }
