"""A pool's long past: certain intervals come in, any window up to three days goes out, in bounded memory.

Two rings of additive slots: one minute wide for six hours, ten minutes wide for three days. A window is the sum of
the slots that end inside it, so its true start is at most one slot earlier than asked; it says so.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agent.windows.increase import Increase, merged
from agent.windows.interval import Gathering, Interval

FINE_SLOT_SECONDS, FINE_SLOTS = 60.0, 360
COARSE_SLOT_SECONDS, COARSE_SLOTS = 600.0, 432
OPEN_SLOTS = 2.0
"""A fine slot stays open to late intervals until the newest is this many slots ahead."""


@dataclass(slots=True)
class Slot:
    """What ended in [start, start + width). `changed`: since the slots were last taken to be saved."""

    start: float
    settled: Increase = field(default_factory=Increase)
    gathering: Gathering | None = None
    changed: bool = True

    @property
    def increase(self) -> Increase:
        """All of it; do not change."""
        if self.gathering is None:
            return self.settled
        return merged([self.settled, *self.gathering.result().values()])

    def settle(self) -> Increase:
        """Ends the gathering; returns what it brought."""
        gained = merged(self.gathering.result().values()) if self.gathering is not None else Increase()
        self.gathering = None
        self.settled.add(gained)
        return gained


class Tier:
    """One ring of slots of equal width. Slots without traffic take no room."""

    def __init__(self, width_seconds: float, slots: int) -> None:
        self.width_seconds = width_seconds
        self.reach_seconds = width_seconds * slots
        self._slots: deque[Slot] = deque()

    @property
    def slots(self) -> deque[Slot]:
        """In time order."""
        return self._slots

    def slot(self, t: float) -> Slot:
        """The slot that holds the moment `t`; older slots past the ring's reach are dropped."""
        start = t - t % self.width_seconds
        slots = self._slots
        at = len(slots)
        while at and slots[at - 1].start > start:
            at -= 1
        if at and slots[at - 1].start == start:
            slots[at - 1].changed = True
            return slots[at - 1]
        slot = Slot(start)
        slots.insert(at, slot)
        while slots[0].start < slots[-1].start - self.reach_seconds:
            slots.popleft()
        return slot

    def since(self, since: float, until: float) -> list[Slot]:
        """The slots that end after `since` and begin before `until`."""
        return [slot for slot in self._slots if slot.start + self.width_seconds > since and slot.start < until]

    def take_changed(self) -> list[Slot]:
        """The slots that changed since the last call."""
        changed = [slot for slot in self._slots if slot.changed]
        for slot in changed:
            slot.changed = False
        return changed

    def all_changed(self) -> None:
        """Every slot is to be saved again."""
        for slot in self._slots:
            slot.changed = True

    def shift(self, seconds: float) -> None:
        """Moves all slots by a whole number of widths (the rest is less than one slot and is given up)."""
        whole = round(seconds / self.width_seconds) * self.width_seconds
        for slot in self._slots:
            slot.start += whole
            slot.changed = True


@dataclass(frozen=True, slots=True)
class LongWindow:
    """The sum over a long window and the stretch it truly covers."""

    start: float
    end: float
    increase: Increase


class PoolHistory:
    """All that a pool's targets gained, by time, and in total since this history began.

    New intervals are gathered in open fine slots; a slot that has aged a little is settled, and only then added to the
    coarse ring and the total, which are read together with the slots that are still open.
    """

    def __init__(self) -> None:
        self.fine = Tier(FINE_SLOT_SECONDS, FINE_SLOTS)
        self.coarse = Tier(COARSE_SLOT_SECONDS, COARSE_SLOTS)
        self.settled_total = Increase()
        self.began: float | None = None
        self.last_end: float | None = None

    def add(self, interval: Interval) -> None:
        """Takes an interval; in any order, though one older than a few minutes costs more."""
        if self.began is None or interval.start < self.began:
            self.began = interval.start
        self.last_end = interval.end if self.last_end is None else max(self.last_end, interval.end)
        slot = self.fine.slot(interval.end)
        settled_before = self.last_end - OPEN_SLOTS * self.fine.width_seconds
        if slot.gathering is None:
            slot.gathering = Gathering(pooled=True)
            slot.gathering.add(interval)
            for aged in [aged for aged in self._open() if aged.start < settled_before]:
                self._settle(aged)
            if slot.start < settled_before and slot.gathering is not None:
                self._settle(slot)  # so old that its ring has dropped it already
        else:
            slot.gathering.add(interval)

    @property
    def total(self) -> Increase:
        """Everything since the history began; it only ever grows."""
        return merged([self.settled_total, *(gain for slot in self._open() for gain in _gathered(slot))])

    def window(self, window_seconds: float, now: float) -> LongWindow:
        """The sum over the last `window_seconds`; from the finest ring that reaches so far back."""
        since = now - window_seconds
        if window_seconds <= self.fine.reach_seconds:
            slots = self.fine.since(since, now)
            total = merged(slot.increase for slot in slots)
        else:
            slots = self.coarse.since(since, now)
            still_open = [gain for slot in self._open() if slot.start < now for gain in _gathered(slot)]
            total = merged([*(slot.increase for slot in slots), *still_open])
        start = slots[0].start if slots else since
        return LongWindow(max(start, self.began) if self.began is not None else start, now, total)

    def minutes(self, since: float, until: float) -> list[tuple[float, Increase]]:
        """(start, increase) of each fine slot that lies wholly in [since, until], in time order."""
        width = self.fine.width_seconds
        return [
            (slot.start, slot.increase)
            for slot in self.fine.since(since, until)
            if slot.start >= since and slot.start + width <= until
        ]

    def between(self, since: float, until: float, coarse: bool = False) -> Increase:
        """The sum of the slots that overlap [since, until]; `coarse`: from the ring that reaches back three days."""
        tier = self.coarse if coarse else self.fine
        return merged(slot.increase for slot in tier.since(since, until))

    def settle(self) -> None:
        """Settles all slots, so that what is written down is complete."""
        for slot in self._open():
            self._settle(slot)

    def shift(self, seconds: float) -> None:
        """Moves the history in time, after the clock was set by `seconds`."""
        self.fine.shift(seconds)
        self.coarse.shift(seconds)
        self.began = None if self.began is None else self.began + seconds
        self.last_end = None if self.last_end is None else self.last_end + seconds

    def _open(self) -> list[Slot]:
        return [slot for slot in self.fine.slots if slot.gathering is not None]

    def _settle(self, slot: Slot) -> None:
        gained = slot.settle()
        self.coarse.slot(slot.start).settled.add(gained)
        self.settled_total.add(gained)


def _gathered(slot: Slot) -> list[Increase]:
    return list(slot.gathering.result().values()) if slot.gathering is not None else []
