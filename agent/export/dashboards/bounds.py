"""A latency with what is certain about it. In: a latency's word and a board's pools. Out: a panel with a band.

A histogram says in which bucket a percentile lies, not where in it. The band is what holds whatever the buckets hide;
the line in it is the best value.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries

from agent.export.dashboards.looks import BLUE, GREEN, GREY, fixed_color, properties
from agent.export.dashboards.panels import About, Query, lines
from agent.export.dashboards.queries import Own

LOW, HIGH = "never below", "never above"
READS = (
    "The band is where the percentile chosen above is for certain, whatever lies inside the servers' buckets; the line "
    "in it is the best value, and the grey one the exact mean. A wide band means coarse buckets, not unsteady service. "
    "Where the band has no upper edge, requests were slower than the last bucket edge and nothing bounds them."
)

_EDGE = properties(color=fixed_color(BLUE), custom__lineWidth=0, custom__fillOpacity=0)
_BAND = properties(color=fixed_color(BLUE), custom__lineWidth=0, custom__fillOpacity=18, custom__fillBelowTo=LOW)
_BEST = properties(color=fixed_color(BLUE), custom__lineWidth=2, custom__fillOpacity=0)
_MEAN = properties(color=fixed_color(GREY), custom__lineWidth=1, custom__fillOpacity=0)


def band(about: About, own: Own, word: str, *more: Query) -> timeseries.Panel:
    """`word`: as in metric names (`pool_tpot`). `more`: further lines, such as what is promised."""
    at = {"percentile": "$percentile"}
    return lines(
        about,
        Query(own.now(f"{word}_percentile_high_seconds", **at), HIGH, _BAND),
        Query(own.now(f"{word}_percentile_low_seconds", **at), LOW, _EDGE),
        Query(own.now(f"{word}_percentile_seconds", **at), "best value, $percentile", _BEST),
        Query(own.now(f"{word}_mean_seconds"), "mean", _MEAN),
        *more,
    )


def slope_band(about: About, low: Query, value: Query, high: Query) -> timeseries.Panel:
    """A value with its 95 % interval. Legends of `low` have to be unique for the band to be filled."""
    return lines(
        about,
        Query(high.expr, high.legend, [*_BAND[:-1], *properties(custom__fillBelowTo=low.legend)]),
        Query(low.expr, low.legend, _EDGE),
        Query(value.expr, value.legend, properties(color=fixed_color(GREEN), custom__lineWidth=2)),
        least=None,
    )
