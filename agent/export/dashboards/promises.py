"""What the objectives say on the boards. In: the configuration. Out: target lines, thresholds, names of objectives.

A target line is read from the metrics, so that it moves when pdwatch is given another target; the colours of a number
are fixed when the board is made, and `pdwatch export dashboards` makes it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent.config import Config, Objective
from agent.export.dashboards.looks import BLUE, GREEN, ORANGE, PROMISE, RED
from agent.export.dashboards.panels import Edges, Query
from agent.export.dashboards.queries import Own

PROMISED = "promised: {{objective}} {{deployment}}"


def objectives_on(config: Config, indicators: Collection[str], *, system: bool | None = None) -> list[Objective]:
    """Objectives on these indicators; `system` chooses those of the whole system, or those of pools."""
    return [
        objective
        for objective in config.objectives
        if objective.indicator in indicators and (system is None or (objective.scope == "system") == system)
    ]


def names(objectives: Sequence[Objective]) -> str:
    """A pattern of their names for `=~`; a class of one character needs no backslash, and so no double quoting."""
    return "|".join(dict.fromkeys(_literal(objective.name) for objective in objectives))


def target_lines(config: Config, own: Own, indicators: Collection[str], *, system: bool | None = None) -> list[Query]:
    """The promised values as a red dashed line; none where nothing is promised."""
    found = [one for one in objectives_on(config, indicators, system=system) if one.statistic != "share"]
    if not found:
        return []
    expr = own.now("objective_target", objective="~" + names(found))
    return [Query(expr, PROMISED, PROMISE)]


def edges(config: Config, indicators: Collection[str], *, system: bool | None = None) -> Edges:
    """Green while the strictest objective is kept with room to spare, orange near its target, red beyond it."""
    found = objectives_on(config, indicators, system=system)
    if not found:
        return ((None, BLUE),)
    if found[0].higher_is_better:
        strictest = max(found, key=lambda one: one.target)
        return ((None, RED), (strictest.target, ORANGE), (strictest.target / strictest.clear_below_ratio, GREEN))
    strictest = min(found, key=lambda one: one.target)
    near = strictest.target * strictest.clear_below_ratio
    return ((None, GREEN), (round(near, 9), ORANGE), (strictest.target, RED))


def _literal(text: str) -> str:
    return "".join(f"[{character}]" if character in ".+*?()|{}$" else character for character in text)
