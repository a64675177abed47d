"""What is left of a promise. In: the configuration. Out: panels on headroom and on the budget.

A promise on a mean has no error budget of its own: for those the budget is time, of which the reader says above how
much may be broken. A promised share has one, and its rules count it request by request.
"""

from __future__ import annotations

from decimal import Decimal

from grafana_foundation_sdk.builders import bargauge

from agent.config import Config
from agent.export.dashboards.looks import NOT_KNOWN
from agent.export.dashboards.panels import About, Query, bars
from agent.export.dashboards.promises import names
from agent.export.dashboards.queries import Own

WHAT = "{{objective}} of {{scope}} {{deployment}}"
GOOD_WHEN_FULL = ((None, "red"), (0.05, "orange"), (0.25, "green"))


def headroom(config: Config, own: Own) -> bargauge.Panel:
    """How far the judged value is from the target, as a part of the target."""
    ceilings = [one for one in config.objectives if not one.higher_is_better and one.statistic != "share"]
    floors = [one for one in config.objectives if one.higher_is_better or one.statistic == "share"]
    queries = []
    if ceilings:
        at = {"objective": "~" + names(ceilings)}
        queries.append(Query(f"1 - {own.now('objective_value', **at)} / {own.now('objective_target', **at)}", WHAT))
    for one in floors:
        at = {"objective": one.name}
        promised = own.now("objective_target", **at) if one.objective_ratio is None else f"{one.objective_ratio:g}"
        queries.append(Query(f"{own.now('objective_value', **at)} / {promised} - 1", WHAT))
    return bars(
        About(
            "Headroom now",
            "How far the judged value is from the promise: 25 % means that it could get a quarter of the target worse "
            "before it breaks; nothing is left at 0, and an empty red bar is beyond it.",
            unit="percentunit",
            decimals=1,
        ),
        *queries,
        thresholds=GOOD_WHEN_FULL,
        most=1,
    )


def budget_left(config: Config, own: Own) -> bargauge.Panel:
    """Of the allowed broken time, and of the allowed share of requests."""
    by = "sum by (deployment, objective, scope)"
    series = own.series("objective_verdict")
    # Absent while nothing was broken: then none of the budget is used.
    judged = f"{by} (count_over_time({own.series('objective_verdict', verdict='~met|undecided|breached')}[$__range]))"
    broken = f"{by} (count_over_time({own.series('objective_verdict', verdict='breached')}[$__range]))"
    none = f"0 * {by} (count_over_time({series}[$__range]))"
    queries = [Query(f"1 - ({broken} or {none}) / ({judged} > 0) / $allowed", f"time: {WHAT}")]
    for one in config.objectives:
        if one.objective_ratio is not None and one.objective_ratio < 1:
            allowed = 1 - Decimal(str(one.objective_ratio))
            recorded = (
                f'objective:pdwatch_{one.indicator}_bad_ratio:low3d{{objective="{one.name}",scope="{one.scope}"}}'
            )
            queries.append(
                Query(f"1 - max by (deployment, objective, scope) ({recorded}) / {allowed}", f"requests, 3d: {WHAT}")
            )
    return bars(
        About(
            "Budget left",
            "Of the time range above, the part of the allowed broken time that is not used up; how much is allowed is "
            "chosen above. Empty: all of it is gone. Take a long range (30 days) to plan by it. Promised shares "
            "of requests also have a budget in requests, over 3 days, from the recording rules.",
            unit="percentunit",
            decimals=1,
            empty=NOT_KNOWN,
            runbooks=("PDWatchErrorBudgetBurn",),
        ),
        *queries,
        thresholds=GOOD_WHEN_FULL,
        most=1,
    )
