"""Rules of Grafana's dashboard linter, under their own names; those on `job` and `instance` are ours on `pool`."""

import re

import pytest
from grafana_foundation_sdk.models import units

from tests.export.dashboards.made import boards, panels, queries
from tests.export.dashboards.variables import VALUES, filled

UNITS = {value for name, value in vars(units).items() if not name.startswith("_") and isinstance(value, str)}
each_board = pytest.mark.parametrize("word", boards())


@each_board
def test_template_datasource(word: str) -> None:
    first = boards()[word]["templating"]["list"][0]
    assert (first["name"], first["label"], first["type"], first["query"]) == (
        "datasource",
        "Data source",
        "datasource",
        "prometheus",
    )


@each_board
def test_panel_title_description(word: str) -> None:
    for panel in panels(boards()[word]):
        assert panel["title"]
        assert len(panel["description"]) >= 12
        assert panel["description"].endswith((".", "?")), panel["description"]


@each_board
def test_panel_titles_are_unique_on_a_board(word: str) -> None:
    titles = [panel["title"] for panel in panels(boards()[word])]
    assert len(titles) == len(set(titles))


@each_board
def test_panel_units(word: str) -> None:
    for panel in panels(boards()[word]):
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        for override in panel["fieldConfig"].get("overrides", []):
            for one in override["properties"]:
                assert one["id"] != "unit" or one["value"] in UNITS


@each_board
def test_panel_no_targets(word: str) -> None:
    for panel in panels(boards()[word]):
        assert panel["targets"], panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters))


@each_board
def test_target_rate_interval(word: str) -> None:
    """Rates for a curve follow the curve's resolution; what speaks of a fixed stretch says so."""
    for asked in queries(word):
        for function, window in re.findall(r"\b(rate|irate|increase)\([^\[\]]*\[([^\]]+)\]", asked.expr):
            if function in ("rate", "irate"):
                assert window == "$__rate_interval", asked.expr
            else:
                assert window in ("$__rate_interval", "$__range", "5m"), asked.expr


@each_board
def test_target_has_the_deployment(word: str) -> None:
    for asked in queries(word):
        for selector in re.findall(r"\{([^{}]*)\}", re.sub(r"\$\{\w+\}", "", asked.expr)):
            assert 'deployment=~"$deployment"' in selector, asked.expr


@each_board
def test_target_uses_only_variables_that_the_board_has(word: str) -> None:
    for asked in queries(word):
        names = {one["name"] for one in boards()[asked.board]["templating"]["list"]} | {"__rate_interval", "__range"}
        used = {first or second for first, second in re.findall(r"\$(?:\{(\w+)\}|(\w+))", asked.expr)}
        assert used <= names
        assert used <= set(VALUES)


@each_board
def test_every_variable_is_used(word: str) -> None:
    board = boards()[word]
    text = str(board["panels"]) + str(board["templating"])
    for one in board["templating"]["list"]:
        assert re.search(rf"\$\{{?{one['name']}\b", text), one["name"]


@each_board
def test_uneditable_dashboard(word: str) -> None:
    assert boards()[word]["editable"] is False


@each_board
def test_legends_name_labels_that_the_query_keeps(word: str) -> None:
    """Labels in a legend have to survive the outermost aggregation."""
    for asked in queries(word):
        target = next(one for one in asked.panel["targets"] if one["refId"] == asked.letter)
        wanted = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
        kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", filled(asked.expr)))))
        assert wanted <= kept
