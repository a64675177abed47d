"""The kinds of panels, with our defaults. In: title, queries, unit, how to read it. Out: panels of the SDK.

Every panel has a description that teaches how to read it, a unit, and words for "there is nothing". Only kinds that
are part of Grafana itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models import dashboard as dashboard_models
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from agent.export.dashboards.looks import NEUTRAL, NO_TRAFFIC, mapped, properties, steps

Panel = timeseries.Panel | stat.Panel | table.Panel | statetimeline.Panel | bargauge.Panel | heatmap.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, table.Panel, statetimeline.Panel, bargauge.Panel, heatmap.Panel)

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
States = Mapping[str, tuple[int, str, str]]
Edges = Sequence[tuple[float | None, str]]


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `legend`: how its series are called; `style`: what is drawn otherwise than the panel's rest."""

    expr: str
    legend: str = ""
    style: list[dashboard_models.DynamicConfigValue] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class About:
    """What a panel says of itself.

    `reads`: how to read it; `empty`: what is shown without data; `runbooks`: alerts whose runbooks it links to;
    `boards`: word in a board's uid -> words of the link; `repeat`: the variable of which each value has its own panel.
    """

    title: str
    reads: str
    unit: str = "short"
    empty: str = NO_TRAFFIC
    runbooks: tuple[str, ...] = ()
    boards: Mapping[str, str] = field(default_factory=dict)
    repeat: str = ""
    decimals: int | None = None


def lines(
    about: About,
    *queries: Query,
    stacked: bool = False,
    least: float | None = 0,
    most: float | None = None,
    thresholds: Edges | None = None,
) -> timeseries.Panel:
    """Values over time. `thresholds` are drawn as dashed lines."""
    panel = _common(timeseries.Panel(), about, queries, instant=False)
    panel.tooltip(common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI).sort(models.SortOrder.DESCENDING))
    panel.legend(_legend(["mean", "max", "lastNotNull"]))
    panel.fill_opacity(60 if stacked else 8).line_width(0 if stacked else 1).show_points(models.VisibilityMode.AUTO)
    panel.span_nulls(False).draw_style(models.GraphDrawStyle.LINE)
    if stacked:
        panel.stacking(common.StackingConfig().mode(models.StackingMode.NORMAL).group("A"))
    if least is not None:
        panel.min(least)
    if most is not None:
        panel.max(most)
    if thresholds is not None:
        panel.thresholds(steps(*thresholds))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(models.GraphThresholdsStyleMode.DASHED))
    return _styled(panel, queries)


def numbers(
    about: About, *queries: Query, thresholds: Edges = NEUTRAL, states: States | None = None, spark: bool = True
) -> stat.Panel:
    """Large numbers, one for each series. `states`: words and colours instead of numbers."""
    panel = _common(stat.Panel(), about, queries, instant=not spark)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    panel.graph_mode(models.BigValueGraphMode.AREA if spark else models.BigValueGraphMode.NONE)
    panel.color_mode(models.BigValueColorMode.BACKGROUND if states else models.BigValueColorMode.VALUE)
    panel.text_mode(
        models.BigValueTextMode.VALUE_AND_NAME if states or len(queries) > 1 else models.BigValueTextMode.AUTO
    )
    panel.thresholds(steps(*thresholds))
    if states is not None:
        panel.mappings(mapped(states))
    return _styled(panel, queries)


def states_over_time(about: About, *queries: Query, states: States) -> statetimeline.Panel:
    """One row for each series, coloured by state."""
    panel = _common(statetimeline.Panel(), about, queries, instant=False)
    panel.mappings(mapped(states)).merge_values(True).show_value(models.VisibilityMode.AUTO).row_height(0.85)
    panel.tooltip(common.VizTooltipOptions().mode(models.TooltipDisplayMode.SINGLE).sort(models.SortOrder.NONE))
    panel.legend(_legend([])).thresholds(steps(*NEUTRAL)).fill_opacity(80).line_width(0)
    return _styled(panel, queries)


def bars(about: About, *queries: Query, thresholds: Edges = NEUTRAL, most: float | None = None) -> bargauge.Panel:
    """Values now, side by side, in the order of the queries."""
    panel = _common(bargauge.Panel(), about, queries, instant=True)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    panel.orientation(models.VizOrientation.HORIZONTAL).display_mode(models.BarGaugeDisplayMode.BASIC)
    panel.thresholds(steps(*thresholds)).min(0)
    if most is not None:
        panel.max(most)
    return _styled(panel, queries)


def rows(
    about: About,
    columns: Sequence[tuple[str, Query]],
    *,
    labels: Sequence[str],
    units: Mapping[str, str] | None = None,
    states: Mapping[str, States] | None = None,
    hidden: Iterable[str] = (),
) -> table.Panel:
    """A table: one line for each set of `labels`, one column for each query, named by it.

    `units` and `states`: column -> unit, or words for its numbers. `hidden`: columns whose value says nothing.
    """
    panel = _common(table.Panel(), about, [query for _, query in columns], instant=True, as_table=True)
    single = len(columns) == 1
    letters = zip(ascii_uppercase, columns, strict=False)
    names = {("Value" if single else f"Value #{letter}"): name for letter, (name, _) in letters}
    order = [*labels, *names]
    organized: dict[str, object] = {
        "excludeByName": {"Time": True, **{value: True for value, name in names.items() if name in set(hidden)}},
        "indexByName": {name: index for index, name in enumerate(order)},
        "renameByName": names,
    }
    if not single:
        panel.with_transformation(dashboard_models.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(dashboard_models.DataTransformerConfig(id_val="organize", options=organized))
    panel.cell_height(models.TableCellHeight.SM).show_header(True)
    for name, unit in (units or {}).items():
        panel.override_by_name(name, properties(unit=unit))
    for name, words in (states or {}).items():
        values = mapped(words)
        cell = {"type": "color-text"}
        panel.override_by_name(name, properties(mappings=values, custom__cellOptions=cell))
    return panel


def distribution(about: About, query: Query) -> heatmap.Panel:
    """A histogram's buckets over time, as the servers count them."""
    panel = _common(heatmap.Panel(), about, [query], instant=False, heat=True)
    panel.calculate(False).cell_gap(1)
    panel.color(
        heatmap.HeatmapColorOptions()
        .mode(heatmap_models.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .steps(64)
        .exponent(0.5)
    )
    panel.y_axis(heatmap.YAxisConfig().unit(about.unit))
    return panel


def _common(
    panel: P, about: About, queries: Sequence[Query], *, instant: bool, as_table: bool = False, heat: bool = False
) -> P:
    panel.title(about.title).description(about.reads).datasource(SOURCE).unit(about.unit).no_value(about.empty)
    if about.decimals is not None:
        panel.decimals(about.decimals)
    if about.repeat:
        panel.repeat(about.repeat).repeat_direction("h").max_per_row(2)
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(SOURCE)
        target.editor_mode(prometheus_models.QueryEditorMode.CODE)
        if query.legend:
            target.legend_format(query.legend)
        if instant:
            target.instant()
        else:
            target.range()
        if as_table:
            target.format(prometheus_models.PromQueryFormat.TABLE)
        elif heat:
            target.format(prometheus_models.PromQueryFormat.HEATMAP)
        panel.with_target(target)
    links: list[Builder[dashboard_models.DashboardLink]] = [
        _link(f"Board: {words}", board_address(board)) for board, words in about.boards.items()
    ]
    links += [_link(f"Runbook: {alert}", f"${{runbooks}}#{alert.lower()}") for alert in about.runbooks]
    if links:
        panel.links(links)
    return panel


def board_address(board: str) -> str:
    """Address of another board on the same Grafana, at the same time, for the same deployment."""
    return f"/d/pdwatch-{board}?${{__url_time_range}}&${{datasource:queryparam}}&${{deployment:queryparam}}"


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(dashboard_models.DashboardLinkType.LINK).url(url)


def _legend(calcs: list[str]) -> common.VizLegendOptions:
    mode = models.LegendDisplayMode.TABLE if calcs else models.LegendDisplayMode.LIST
    legend = common.VizLegendOptions().show_legend(True).placement(models.LegendPlacement.BOTTOM).calcs(calcs)
    return legend.display_mode(mode)


S = TypeVar("S", timeseries.Panel, stat.Panel, statetimeline.Panel, bargauge.Panel)


def _styled(panel: S, queries: Sequence[Query]) -> S:
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        if query.style:
            panel.override_by_query(letter, query.style)
    return panel
