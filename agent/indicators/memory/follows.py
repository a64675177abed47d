"""What growing memory follows: levels and work counts come in, bytes per step, request, token and hour go out.

Per slot of a few minutes the lowest level is kept for three days, with the moment it was read and the counts then.
Which of the four growth follows is told by how evenly it is spread over each: the growth per unit of the true cause
varies least from slot to slot. Whether growth stops when traffic stops is told by stretches without any work.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from agent.indicators.memory.settings import TrendSettings

Unit = Literal["step", "request", "token", "hour"]

SLOT_SECONDS = 300.0
KEPT_SECONDS = 72 * 3600.0
GROUPS = 12
"""Stretches of slots that are compared; fewer than four say nothing."""
LEAST_GROUPS = 4
IDLE_SLOTS = 2
STOPPED_SHARE = 0.2
"""Growth of idle slots below this share of the busy ones' counts as stopped."""


@dataclass(frozen=True, slots=True)
class Followed:
    """`bytes_per` holds what is known; `best` is the unit over which growth is most even, None when undecided."""

    bytes_per: dict[Unit, float]
    best: Unit | None
    stops_without_traffic: bool | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Work done so far, as of the page at `until` (unix seconds); counts only grow."""

    until: float
    steps: float = 0.0
    requests: float = 0.0
    tokens: float = 0.0


@dataclass(slots=True)
class _Slot:
    """`at`: when the lowest level was read; `counts`: what was known of the work at that moment."""

    ends: float
    at: float
    lowest_bytes: float
    counts: Counts


class Following:
    """Of one process, whatever its age."""

    def __init__(self, settings: TrendSettings | None = None) -> None:
        scale = (settings or TrendSettings()).time_scale
        self._slot_seconds = SLOT_SECONDS * scale
        self._slots: deque[_Slot] = deque(maxlen=round(KEPT_SECONDS / SLOT_SECONDS))

    def add(self, t: float, level_bytes: float, counts: Counts) -> None:
        """One reading with the work done so far."""
        if not self._slots or t >= self._slots[-1].ends:
            ends = t - t % self._slot_seconds + self._slot_seconds
            self._slots.append(_Slot(ends, t, level_bytes, counts))
            return
        slot = self._slots[-1]
        if level_bytes < slot.lowest_bytes:
            slot.at, slot.lowest_bytes, slot.counts = t, level_bytes, counts

    def restarted(self) -> None:
        """Levels of another life do not connect."""
        self._slots.clear()

    def over(self, since: float) -> Followed:
        """Over the slots that end after `since`, the unfinished last one left out."""
        slots = [slot for slot in self._slots if slot.ends > since][:-1]
        if len(slots) < LEAST_GROUPS + 1:
            return Followed({}, None, None)
        first, last = slots[0], slots[-1]
        growth = last.lowest_bytes - first.lowest_bytes
        amounts: dict[Unit, float] = {
            "step": last.counts.steps - first.counts.steps,
            "request": last.counts.requests - first.counts.requests,
            "token": last.counts.tokens - first.counts.tokens,
            "hour": (last.at - first.at) / 3600.0,
        }
        bytes_per = {unit: growth / amount for unit, amount in amounts.items() if amount > 0}
        return Followed(bytes_per, _most_even(slots) if growth > 0 else None, _stops(slots))


def _most_even(slots: list[_Slot]) -> Unit | None:
    """The unit with the least unexplained growth: least squares through the origin over groups of slots."""
    size = max(1, (len(slots) - 1) // GROUPS)
    marks = slots[::size]
    if len(marks) < LEAST_GROUPS + 1:
        return None
    growths = [later.lowest_bytes - earlier.lowest_bytes for earlier, later in pairwise(marks)]
    rests: dict[Unit, float] = {}
    for unit in ("step", "request", "token", "hour"):
        amounts = [_amount(later, unit) - _amount(earlier, unit) for earlier, later in pairwise(marks)]
        weight = sum(amount * amount for amount in amounts)
        if weight > 0 and min(amounts) >= 0:
            rate = sum(a * g for a, g in zip(amounts, growths, strict=True)) / weight
            rests[unit] = sum((g - rate * a) ** 2 for a, g in zip(amounts, growths, strict=True))
    if not rests:
        return None
    best = min(rests, key=lambda unit: rests[unit])
    others = [rest for unit, rest in rests.items() if unit != best]
    clear = not others or rests[best] < 0.8 * min(others)
    return best if clear else None


def _amount(slot: _Slot, unit: Unit) -> float:
    if unit == "step":
        return slot.counts.steps
    if unit == "request":
        return slot.counts.requests
    return slot.counts.tokens if unit == "token" else slot.at


def _stops(slots: list[_Slot]) -> bool | None:
    """True when memory stood still without work, False when it grew on; None without enough of both.

    A stretch between two levels was without work only if a page from after its end still shows the counts from before
    its beginning: counts are known as of the last page, and an old page is no sign of idleness.
    """
    idle_growth = busy_growth = idle_seconds = busy_seconds = 0.0
    idle = busy = 0
    for earlier, later, after in zip(slots, slots[1:], slots[2:], strict=False):
        grown, seconds = later.lowest_bytes - earlier.lowest_bytes, later.at - earlier.at
        if _same_work(earlier.counts, after.counts):
            if after.counts.until >= later.at:
                idle, idle_growth, idle_seconds = idle + 1, idle_growth + grown, idle_seconds + seconds
        elif not _same_work(earlier.counts, later.counts):
            busy, busy_growth, busy_seconds = busy + 1, busy_growth + grown, busy_seconds + seconds
    if idle < IDLE_SLOTS or busy < IDLE_SLOTS or busy_growth <= 0 or idle_seconds <= 0:
        return None
    return idle_growth / idle_seconds < STOPPED_SHARE * busy_growth / busy_seconds


def _same_work(one: Counts, other: Counts) -> bool:
    return one.tokens == other.tokens and one.steps == other.steps
