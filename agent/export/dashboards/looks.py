"""Words, colours and value mappings that every board shares. In: nothing. Out: mappings and thresholds for Grafana.

Colour never stands alone: each state has its word. Unknown is grey, never green and never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "#808080"

NO_TRAFFIC = "No traffic"
NOT_KNOWN = "Not known"
NOTHING = "Nothing"

VERDICTS: Mapping[str, tuple[int, str, str]] = {
    "not_applicable": (0, "not applicable", GREY),
    "no_data": (1, "no traffic", GREY),
    "insufficient_data": (2, "too few requests", BLUE),
    "met": (3, "kept", GREEN),
    "undecided": (4, "cannot tell", YELLOW),
    "breached": (5, "broken", RED),
}
"""Verdict -> number in a query, words, colour; the larger number is the graver one."""

STATUSES: Mapping[str, tuple[int, str, str]] = {
    "ok": (0, "ok", GREEN),
    "resolved": (1, "resolved", BLUE),
    "pending": (2, "pending", ORANGE),
    "firing": (3, "firing", RED),
}
TRENDS: Mapping[str, tuple[int, str, str]] = {
    "unknown": (0, "unknown", GREY),
    "warming": (1, "warming up", BLUE),
    "steady": (2, "steady", GREEN),
    "growing": (3, "growing", ORANGE),
    "leaking": (4, "leaking", RED),
}
SOURCES: Mapping[str, tuple[int, str, str]] = {
    "composed": (0, "composed of both legs", BLUE),
    "traces": (1, "request spans", GREEN),
    "router": (2, "the router", GREEN),
}
"""Where the system's time to the first token is from: put together, or measured."""
UP: Mapping[str, tuple[int, str, str]] = {"down": (0, "down", RED), "up": (1, "up", GREEN)}


def codes(states: Mapping[str, tuple[int, str, str]]) -> dict[str, int]:
    """Word -> number, as a query needs it."""
    return {word: number for word, (number, _, _) in states.items()}


def mapped(states: Mapping[str, tuple[int, str, str]]) -> list[model.ValueMapping]:
    """Number -> words and colour, as a panel shows it."""
    options = {
        str(number): model.ValueMappingResult(text=text, color=color, index=index)
        for index, (number, text, color) in enumerate(states.values())
    }
    return [model.ValueMap(options=options)]


def steps(*edges: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Thresholds: the colour from each value on; the first value is None, which is everything below."""
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in edges])
    )


NEUTRAL = ((None, BLUE),)
"""One colour: the number is neither good nor bad by itself."""
ANY_IS_BAD = ((None, GREEN), (1.0, RED))
FULL = ((None, GREEN), (0.8, ORANGE), (0.9, RED))
"""KV cache: past 90 % it bounds the pool."""


def properties(**values: object) -> list[model.DynamicConfigValue]:
    """Overrides of one field; `__` stands for a dot: `custom__fillOpacity=10`."""
    return [model.DynamicConfigValue(id_val=name.replace("__", "."), value=value) for name, value in values.items()]


def fixed_color(color: str) -> dict[str, str]:
    """Value of the property `color`."""
    return {"mode": "fixed", "fixedColor": color}


Overrides = Iterable[tuple[str, list[model.DynamicConfigValue]]]
"""(letter of the query, its properties)"""

DASHED = {"fill": "dash", "dash": [8, 6]}
PROMISE = properties(color=fixed_color(RED), custom__lineStyle=DASHED, custom__fillOpacity=0, custom__lineWidth=2)
"""How a promised value is drawn in every panel: a red dashed line."""
