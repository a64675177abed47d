"""What surrounds the panels of every board: variables, annotations, links, times. In: a board's parts. Out: JSON text.

Nothing is tied to one Grafana: the data source is a variable, the uid is fixed, there is no numeric id of the board.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from agent.export.dashboards.layout import Row, arranged
from agent.export.dashboards.panels import SOURCE
from agent.export.dashboards.portable import portable

OWN_TAG, VLLM_TAG = "pdwatch", "pdwatch-vllm"


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable filled from a metric's label.

    `optional`: series without the label belong to "All" as well; `listed`: "All" is the values found, not everything.
    """

    name: str
    label: str
    metric: str
    optional: bool = False
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """A variable with fixed values, (words, value) each; the first is chosen at the start."""

    name: str
    label: str
    values: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Event:
    """An annotation: each series of `expr` is an event while it lasts."""

    name: str
    expr: str
    title: str
    text: str
    tags: str
    color: str


@dataclass(frozen=True, slots=True)
class Board:
    """One board before it is written. `word`: its uid is `pdwatch-WORD` and its file `WORD.json`."""

    word: str
    title: str
    description: str
    tag: str
    variables: Sequence[Choice | Options]
    events: Sequence[Event]
    rows: Sequence[Row]
    runbooks: str
    begin: str = "now-6h"
    end: str = "now"

    @property
    def uid(self) -> str:
        """Stable identity: links and alerts lead to it."""
        return f"pdwatch-{self.word}"


def board_text(board: Board) -> str:
    """The board as Grafana reads it; the same text for the same board."""
    encoded: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(_built(board)))
    return json.dumps(portable(encoded), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _built(board: Board) -> models.Dashboard:
    built = dashboard.Dashboard(board.title).uid(board.uid).description(board.description)
    built.tags([board.tag]).readonly().refresh("30s").time(board.begin, board.end).timezone("browser")
    built.tooltip(models.DashboardCursorSync.CROSSHAIR)
    built.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for variable in board.variables:
        built.with_variable(_choice(variable) if isinstance(variable, Choice) else _options(variable))
    runbooks = dashboard.TextBoxVariable("runbooks").label("Runbooks at").default_value(board.runbooks)
    built.with_variable(runbooks.description("Address of the runbooks (alerts/runbooks.md, wherever you serve it)"))
    for event in board.events:
        built.annotation(_annotation(event))
    for tag, title in ((OWN_TAG, "pdwatch"), (VLLM_TAG, "On vLLM's own metrics")):
        link = dashboard.DashboardLink(title).type(models.DashboardLinkType.DASHBOARDS).tags([tag])
        built.link(link.as_dropdown(tag != board.tag).include_vars(True).keep_time(True).icon("external link"))
    for placed in arranged(board.rows):
        if isinstance(placed, dashboard.Row):
            built.with_row(placed)
        else:
            built.with_panel(placed)
    return built.build()


def _choice(choice: Choice) -> dashboard.QueryVariable:
    query = f"label_values({choice.metric}, {choice.label})"
    variable = dashboard.QueryVariable(choice.name).label(choice.name).datasource(SOURCE).definition(query)
    variable.query(query)
    variable.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.NATURAL_ASC)
    variable.multi(True).include_all(True)
    if not choice.listed:
        variable.all_value(".*" if choice.optional else ".+")
    return variable.current(models.VariableOption(text="All", value="$__all", selected=True))


def _options(options: Options) -> dashboard.CustomVariable:
    written = ", ".join(words if words == value else f"{words} : {value}" for words, value in options.values)
    first_words, first = options.values[0]
    variable = dashboard.CustomVariable(options.name).label(options.label).values(written)
    chosen = models.VariableOption(text=first_words, value=first, selected=True)
    others = [models.VariableOption(text=words, value=value, selected=False) for words, value in options.values[1:]]
    return variable.current(chosen).options([chosen, *others])


def _annotation(event: Event) -> dashboard.AnnotationQuery:
    query = dashboard.AnnotationQuery().name(event.name).datasource(SOURCE).enable(True).hide(False)
    query.icon_color(event.color).expr(event.expr).step("60s").use_value_for_time(False)
    return query.title_format(event.title).text_format(event.text).tag_keys(event.tags)
