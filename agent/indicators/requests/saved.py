"""Slots written down and taken up again. In: a slot, or its document. Out: the other one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.indicators.requests.samples import VALUES, Group
from agent.indicators.requests.sketch import Sketch
from agent.indicators.requests.slots import Slot
from agent.windows.joined_request import Parts, Request


def slot_key(start: float, width: float) -> str:
    """Where a slot is saved."""
    return f"requests/slot/{width:.0f}/{start:.0f}"


def slot_document(slot: Slot) -> dict[str, Any]:
    """As JSON holds it. Single samples are left out: after a restart a window's ends are rounded to slots."""
    return {
        "start": slot.start,
        "width": slot.width,
        "sums": [[list(group), [sketch.document() for sketch in sketches]] for group, sketches in slot.sums.items()],
        "slowest": [list(request) for request in slot.slowest],
    }


def slot_of(document: Mapping[str, Any]) -> Slot:
    """Raises KeyError, TypeError, ValueError and the like for a damaged document."""
    slot = Slot(float(document["start"]), float(document["width"]), changed=False)
    for fields, sketches in document["sums"]:
        group = Group(*fields)
        if len(sketches) != len(VALUES[group.kind]):
            raise ValueError(f"a group of kind {group.kind} has {len(sketches)} values")
        slot.sums[group] = [Sketch.from_document(sketch) for sketch in sketches]
    for fields in document["slowest"]:
        request = Request(*fields)
        slot.remember(request._replace(parts=Parts(*request.parts)))
    return slot
