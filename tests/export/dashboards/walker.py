"""What makes a board work only on its author's Grafana. In: any board. Out: its faults, in words."""

import re
from collections.abc import Iterator
from typing import Any

CORE_KINDS = {"row", "timeseries", "stat", "table", "state-timeline", "bargauge", "heatmap"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OUR_METRICS = re.compile(
    r'label_values\((?:pdwatch_\w+|pool:vllm_[\w:]+|up\{[^}]*role=~"[^}]*\})(?:\{[^}]*\})?, *\w+\)'
)
OF_ONE_GRAFANA = ("id", "__inputs", "__requires", "__elements", "iteration", "version")


def faults(board: dict[str, Any]) -> Iterator[str]:
    """Nothing for a board that can be provisioned anywhere."""
    yield from (f"{field} belongs to one Grafana" for field in OF_ONE_GRAFANA if field in board)
    if not re.fullmatch(r"pdwatch-[a-z-]{3,32}", str(board.get("uid"))):
        yield "no stable uid"
    variables = board.get("templating", {}).get("list", [])
    if [one["name"] for one in variables if one.get("type") == "datasource"] != ["datasource"]:
        yield "no variable for the data source"
    for panel in board.get("panels", []):
        if panel["type"] not in CORE_KINDS:
            yield f"panel of kind {panel['type']}"
        if panel["type"] != "row":
            yield from _sources(f"panel {panel.get('title')}", [panel, *panel.get("targets", [])])
    for one in board.get("annotations", {}).get("list", []):
        yield from _sources(f"annotation {one['name']}", [one])
    for one in variables:
        if one.get("type") == "query":
            yield from _variable(one)


def _variable(one: dict[str, Any]) -> Iterator[str]:
    name = f"variable {one['name']}"
    yield from _sources(name, [one])
    if not OUR_METRICS.fullmatch(str(one.get("query"))):
        yield f"{name} is filled from others' metrics"
    # With `multi` Grafana escapes what is special in a pattern: names with dots, slashes, spaces, brackets.
    if not (one.get("includeAll") and one.get("multi")):
        yield f"{name} does not allow All, or is not safe in a pattern"
    if one.get("refresh") != 2:
        yield f"{name} does not follow the time range"


def _sources(what: str, parts: list[dict[str, Any]]) -> Iterator[str]:
    if any(part.get("datasource") != SOURCE for part in parts):
        yield f"{what} has a data source of its own"
