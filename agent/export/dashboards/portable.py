"""Leaves out what Grafana 10 does not know. In: a board as plain values. Out: the same without fields that came later.

The SDK writes for the newest Grafana. What is taken out here has the value that a newer Grafana takes by itself, so one
file means the same from Grafana 10 to 13; a test holds that against the SDK's own defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NO_LEGEND = {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []}

LATER_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "stat": {"wideLayout": True, "showPercentChange": False, "percentChangeColorMode": "standard"},
    "bargauge": {"legend": _NO_LEGEND, "maxVizHeight": 300, "namePlacement": "auto", "sizing": "auto"},
    "state-timeline": {"perPage": 20},
    "heatmap": {"selectionMode": "x", "tooltip": {"mode": "single"}},
    "table": {"footer": {"countRows": False, "reducer": [], "show": False}},
}
"""Kind of panel -> options that came after Grafana 10.0 or went before 13, with the default."""

LATER_VARIABLE_FIELDS: Mapping[str, Any] = {
    "allowCustomValue": True,
    "auto": False,
    "auto_count": 30,
    "auto_min": "10s",
}
PLACEMENT = "inControlsMenu"
"""Since Grafana 12 hides links and annotations in a menu; without the field they stand where they always did."""

SCHEMA_VERSION = 38
"""Grafana 10.0's own: every later one migrates it while loading, and none meets a version from its future."""


def portable(board: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the later fields. Raises ValueError where one of them would be lost with a value of its own."""
    found = dict(board)
    found["schemaVersion"] = SCHEMA_VERSION
    found["panels"] = [_panel(panel) for panel in board["panels"]]
    found["links"] = [_without(link, {"placement": PLACEMENT}) for link in board["links"]]
    found["annotations"] = {
        "list": [_without(one, {"placement": PLACEMENT, "builtIn": 0}) for one in board["annotations"]["list"]]
    }
    found["templating"] = {"list": [_without(one, LATER_VARIABLE_FIELDS) for one in board["templating"]["list"]]}
    return found


def _panel(panel: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(panel)
    if "options" in panel:
        found["options"] = _without(panel["options"], LATER_OPTIONS.get(panel["type"], {}))
    if "links" in panel:
        found["links"] = [_without(link, {"placement": PLACEMENT}) for link in panel["links"]]
    if not panel.get("repeat"):
        found.pop("repeatDirection", None)
    return found


def _without(values: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    for name, default in later.items():
        if name in values and values[name] != default:
            raise ValueError(f"{name} is {values[name]!r}: Grafana 10 would not know it")
    return {name: value for name, value in values.items() if name not in later}
