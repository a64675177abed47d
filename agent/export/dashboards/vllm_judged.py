"""Objectives as the rules judge them, for boards. In: the configuration. Out: each objective's series and its limit.

The rules are the source of both, so what a board calls broken is what an alert is sent for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal

from agent.burn import decimal_text
from agent.config import Config, Objective
from agent.export.dashboards.looks import GREEN, ORANGE, PROMISE, RED
from agent.export.dashboards.panels import Edges, Query
from agent.export.rules.identity import Identity
from agent.export.rules.model import Alert, Recording
from agent.export.rules.objectives import VllmObjectives
from agent.export.rules.vllm_source import VllmSource

BY = "max by (deployment, objective, scope)"


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective: `value` is broken for certain where it is above (or below) `limit`."""

    objective: Objective
    value: str
    above: bool
    limit: Decimal
    near: Decimal

    @property
    def broken(self) -> str:
        """1 while it is broken, 0 while it is not, nothing while there is nothing to judge."""
        return f"{self.value} {'>' if self.above else '<'} bool {decimal_text(self.limit)}"

    @property
    def promised(self) -> str:
        """The limit as a series with the objective's labels."""
        return f"0 * {self.value} + {decimal_text(self.limit)}"

    @property
    def headroom(self) -> str:
        """What is left of the limit, as a part of it."""
        share = f"{self.value} / {decimal_text(self.limit)}"
        return f"1 - {share}" if self.above else f"{share} - 1"


def judged(config: Config) -> Iterator[Judged]:
    """Every objective that the rules can judge."""
    rules = VllmObjectives(config, VllmSource(config), Identity(config)).group().rules
    recordings = [rule for rule in rules if isinstance(rule, Recording)]
    for objective in config.objectives:
        about = {"objective": objective.name, "scope": objective.scope}
        for alert in rules:
            if not isinstance(alert, Alert) or alert.level is None or not about.items() <= alert.labels.items():
                continue
            level = alert.level
            name = next(one.record for one in recordings if f"{one.record}{{" in level.value)
            series = f'{name}{{deployment=~"$deployment",objective="{objective.name}",scope="{objective.scope}"}}'
            yield Judged(objective, f"{BY} ({series})", level.above, level.fires, level.clears)


def promised_lines(config: Config, indicators: Collection[str], *, system: bool) -> list[Query]:
    """Red dashed lines of the promised means."""
    return [
        Query(one.promised, "promised: {{objective}}", PROMISE)
        for one in judged(config)
        if _means(one, indicators, system)
    ]


def judged_edges(config: Config, indicators: Collection[str], *, system: bool) -> Edges:
    """Green, orange near the limit, red beyond it; blue where nothing is promised."""
    for one in judged(config):
        if _means(one, indicators, system) and one.above:
            return ((None, GREEN), (float(one.near), ORANGE), (float(one.limit), RED))
    return ((None, "blue"),)


def _means(one: Judged, indicators: Collection[str], system: bool) -> bool:
    objective = one.objective
    in_scope = (objective.scope == "system") == system
    return objective.indicator in indicators and objective.statistic == "mean" and in_scope
