"""The trial of objectives. In: a stage. Out: one story in which all means are broken at once.

Under the target nothing fires; beyond it they fire after their hold; back between target and clear level they go on
(no second page for a value that dances on the line); without traffic they go on too; well below it they end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent.config import Objective
from agent.export.rules.trials.model import Check, Trial
from agent.export.rules.trials.stage import Stage, marks
from agent.verdicts.alert_rules import OBJECTIVE_ALERT

STEP = 30.0


def played_objectives(stage: Stage) -> list[Objective]:
    """Those whose value the trial can set: means of TTFT and TPOT over the usual windows."""
    return [
        objective
        for objective in stage.config.objectives
        if objective.statistic == "mean" and objective.indicator in ("ttft", "tpot")
        and objective.window_seconds <= 900
        and stage.has(OBJECTIVE_ALERT, objective=objective.name)
    ]  # fmt: skip


def breach_of(stage: Stage) -> list[dict[str, str]]:
    """Labels of the alerts that the stage's `broken` phases set off in its last pool."""
    last = stage.config.pools[-1]
    return [
        {"objective": one.name, "scope": one.scope}
        for one in played_objectives(stage)
        if one.scope in ("system", last.name) and last.role != "prefill"
    ]


def objective_trial(stage: Stage) -> Trial | None:
    """None where no objective can be played, or another one would be broken beside."""
    objectives = played_objectives(stage)
    if not objectives or len(objectives) != len(stage.config.objectives):
        return None
    window = int(max(one.window_seconds for one in objectives) // STEP)
    hold = int(max(one.hold_seconds for one in objectives) // STEP)
    clear = int(max(one.clear_seconds for one in objectives) // STEP)
    # Steps that get longer with more requests are no jump at the same load.
    busy = {"requests": 64}
    stretches: list[tuple[int, float | None, Mapping[str, object]]] = [
        (12, None, {}),
        (window + hold + 4, 0.97, busy),
        (window + hold + 4, 1.25, busy),
        (window + clear + 4, 0.97, busy),
        (window + clear + 4, 0.97, {"requests": 0, "running": 0}),
        (window + 2, None, {"reset": True}),
        (clear + 4, None, {}),
    ]
    story = {
        pool.name: [
            replace(stage.day(steps, **(stage.levels(pool, part) if part else {})), **other)  # type: ignore[arg-type]
            for steps, part, other in stretches
        ]
        for pool in stage.config.pools
    }
    at = marks(next(iter(story.values())))
    fired = tuple(stage.fired(OBJECTIVE_ALERT, objective=one.name, scope=one.scope) for one in objectives)
    over = tuple(
        replace(one, told={"value": stage.shown(objective, 1.25)})
        for one, objective in zip(fired, objectives, strict=True)
    )
    checks = (
        Check(at[0]),
        Check(at[1]),
        Check(at[1] + hold * STEP - STEP),
        Check(at[2], over),
        Check(at[3], fired),
        Check(at[4], fired),
        Check(at[6]),
    )
    return Trial(f"means beyond their targets: {OBJECTIVE_ALERT}", stage.series(story), checks)
