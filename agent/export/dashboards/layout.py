"""Where panels stand. In: rows of panels with their widths. Out: panels with ids and places on Grafana's grid.

Rows follow the data: what was promised, then what explains it. Ids are given in order, so that a board is the same text
each time it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from agent.export.dashboards.panels import Panel

COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Place:
    """A panel and the room it takes: `width` of 24 columns, `height` in Grafana's units of about 38 pixels."""

    panel: Panel
    width: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and what stands under it, from left to right, a new line where it no longer fits."""

    title: str
    places: Sequence[Place]


def arranged(rows: Sequence[Row]) -> Iterator[dashboard.Row | Panel]:
    """Headings and panels in the order of reading."""
    identity, top = 1, 0
    for row in rows:
        yield dashboard.Row(row.title).id(identity).grid_pos(models.GridPos(h=1, w=COLUMNS, x=0, y=top))
        identity, top = identity + 1, top + 1
        left = tallest = 0
        for place in row.places:
            if left + place.width > COLUMNS:
                left, top, tallest = 0, top + tallest, 0
            position = models.GridPos(h=place.height, w=place.width, x=left, y=top)
            yield place.panel.id(identity).grid_pos(position)
            identity, left, tallest = identity + 1, left + place.width, max(tallest, place.height)
        top += tallest
