"""Boards against the published JSON schemas. All kinds of panels that are used have one; so have queries and boards."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from agent.export.dashboards.portable import LATER_OPTIONS
from tests.export.dashboards.made import boards, panels

FILES = {
    "timeseries": "timeseries",
    "stat": "stat",
    "table": "table",
    "state-timeline": "statetimeline",
    "bargauge": "bargauge",
    "heatmap": "heatmap",
}
WITHOUT_FIELD_CONFIG = {"stat", "bargauge"}
"""Kinds that have no options of their own per field."""

each_board = pytest.mark.parametrize("word", boards())


ANYTHING = (("DynamicConfigValue", "value"), ("MatcherConfig", "options"))
"""Values of any type in Grafana, which the schemas' generator wrote down as objects: not held against us."""


def validator(shared_dir: Path, file: str, definition: str) -> Draft7Validator:
    schema: dict[str, Any] = json.loads((shared_dir / "schemas" / "grafana" / f"{file}.jsonschema.json").read_text())
    for name, field in ANYTHING:
        if name in schema["definitions"]:
            schema["definitions"][name]["properties"][field] = {}
    cells = schema["definitions"].get("TableCellOptions")
    if cells is not None:
        cells["anyOf"] = cells.pop("oneOf")  # the alternatives overlap: a plain type fits several of them
    return Draft7Validator({"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]})


def said(found: Draft7Validator, value: object) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message[:300]}" for error in found.iter_errors(value)]


@each_board
def test_the_board_is_one(word: str, shared_dir: Path) -> None:
    assert said(validator(shared_dir, "dashboard", "Dashboard"), boards()[word]) == []


@each_board
def test_options_of_every_panel_are_those_of_its_kind(word: str, shared_dir: Path) -> None:
    """The schemas are the newest Grafana's and want fields that 10 lacks: those are put back with their defaults."""
    for panel in panels(boards()[word]):
        kind = panel["type"]
        options = {**LATER_OPTIONS.get(kind, {}), **panel["options"]}
        assert said(validator(shared_dir, FILES[kind], "Options"), options) == [], panel["title"]
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if kind in WITHOUT_FIELD_CONFIG:
            assert custom is None
        elif custom is not None:
            assert said(validator(shared_dir, FILES[kind], "FieldConfig"), custom) == [], panel["title"]


@each_board
def test_overrides_name_options_that_fields_have(word: str, shared_dir: Path) -> None:
    dashboard = json.loads((shared_dir / "schemas/grafana/dashboard.jsonschema.json").read_text())["definitions"]
    for panel in panels(boards()[word]):
        for override in panel["fieldConfig"].get("overrides", []):
            for one in override["properties"]:
                head, _, rest = one["id"].partition(".")
                if head == "custom":
                    found = validator(shared_dir, FILES[panel["type"]], "FieldConfig")
                    custom = {**panel["fieldConfig"]["defaults"].get("custom", {}), rest: one["value"]}
                    assert said(found, custom) == [], (panel["title"], one["id"])
                else:
                    assert head in dashboard["FieldConfig"]["properties"], (panel["title"], one["id"])


@each_board
def test_every_query_is_one_of_prometheus(word: str, shared_dir: Path) -> None:
    found = validator(shared_dir, "prometheus", "Dataquery")
    for panel in panels(boards()[word]):
        for target in panel["targets"]:
            assert said(found, target) == [], panel["title"]
