"""Samples by time in bounded memory: samples come in, the sum over any window up to six hours goes out.

Slots of 10 s for ten minutes, of a minute for an hour, of five minutes for six hours; older ones are added into wider
ones. A young slot also keeps its samples one by one, so that a window may begin and end inside it; where it does not,
a slot counts when more than half of it lies in the window, and the answer says what is really covered.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agent.indicators.requests.samples import VALUES, Group, Sample
from agent.indicators.requests.sketch import Sketch
from agent.windows.joined_request import Request

TIERS: tuple[tuple[float, float], ...] = ((10.0, 600.0), (60.0, 3600.0), (300.0, 21600.0))
"""(width, reach) in seconds."""
MOST_SINGLE_SAMPLES = 1024
"""Samples that one slot keeps one by one; with more, only their sum."""
SLOWEST_OF_A_SLOT = 10

Sums = dict[Group, list[Sketch]]


@dataclass(slots=True)
class Slot:
    """What ended in (start, start + width]. `single`: the same samples one by one, None when there were too many."""

    start: float
    width: float
    sums: Sums = field(default_factory=dict)
    single: list[Sample] | None = None
    slowest: list[Request] = field(default_factory=list)
    """Slowest first."""
    changed: bool = True

    @property
    def end(self) -> float:
        return self.start + self.width

    def add(self, sample: Sample) -> None:
        add_sample(self.sums, sample)
        self.changed = True
        if self.single is not None:
            self.single.append(sample)
            if len(self.single) > MOST_SINGLE_SAMPLES:
                self.single = None

    def remove(self, sample: Sample) -> None:
        """Takes out a sample that was added; one that is not there is left alone."""
        if self.single is not None:
            if sample not in self.single:
                return
            self.single.remove(sample)
        sketches = self.sums.get(sample.group)
        if sketches is not None:
            for sketch, value in zip(sketches, sample.values, strict=True):
                if value is not None and sketch.count:
                    sketch.remove(value)
            self.changed = True

    def remember(self, request: Request) -> None:
        """Keeps it when it is among the slowest of this slot."""
        insort(self.slowest, request, key=lambda each: -each.ttft_seconds)
        del self.slowest[SLOWEST_OF_A_SLOT:]

    def take_in(self, other: Slot) -> None:
        """Adds all of another slot, except what is kept for a short time only."""
        add_sums(self.sums, other.sums, lasting=True)
        for request in other.slowest:
            self.remember(request)
        self.changed = True


@dataclass(slots=True)
class Covered:
    """The sum over a window. `since`, `until`: what it really covers; None where there was nothing to cover."""

    since: float
    until: float
    sums: Sums = field(default_factory=dict)
    slowest: list[Request] = field(default_factory=list)


class Slots:
    """Slots of three widths, none of which overlap."""

    def __init__(self) -> None:
        self._tiers: list[dict[float, Slot]] = [{} for _ in TIERS]
        self._newest = float("-inf")

    def slot(self, at: float) -> Slot:
        """The slot of that moment; it is made if needed, and what has grown old is added into wider ones."""
        age = self._newest - at
        tier = 0 if age < TIERS[0][1] else 1 if age < TIERS[1][1] else 2
        width = TIERS[tier][0]
        start = _start(at, width)
        found = self._tiers[tier].get(start)
        if found is None:
            found = self._tiers[tier][start] = Slot(start, width, single=[] if tier == 0 else None)
            if start + width > self._newest:
                self._newest = start + width
                self._age()
        return found

    def since(self, since: float, until: float) -> Covered:
        """Everything that ended in (since, until]."""
        covered = Covered(since, until)
        for slot in self._between(since, until):
            if slot.start >= since and slot.end <= until:
                add_sums(covered.sums, slot.sums)
            elif slot.single is not None:
                for sample in slot.single:
                    if since < sample.at <= until:
                        add_sample(covered.sums, sample)
            elif min(slot.end, until) - max(slot.start, since) > slot.width / 2:
                add_sums(covered.sums, slot.sums)
                covered.since, covered.until = min(covered.since, slot.start), max(covered.until, slot.end)
            elif slot.start < since:
                covered.since = max(covered.since, slot.end)
            else:
                covered.until = min(covered.until, slot.start)
            covered.slowest += [request for request in slot.slowest if since < request.at <= until]
        covered.slowest.sort(key=lambda each: -each.ttft_seconds)
        return covered

    def all(self) -> Iterator[Slot]:
        """Every slot, oldest first within its width."""
        for tier in self._tiers:
            yield from (tier[start] for start in sorted(tier))

    def holds(self, start: float, width: float) -> bool:
        """Whether this slot is still kept."""
        return any(start in tier for (each, _), tier in zip(TIERS, self._tiers, strict=True) if each == width)

    def put(self, slot: Slot) -> None:
        """A restored slot. Raises ValueError when no slot can lie there."""
        for (width, _), tier in zip(TIERS, self._tiers, strict=True):
            if width == slot.width and slot.start % width == 0.0:
                tier[slot.start] = slot
                self._newest = max(self._newest, slot.end)
                return
        raise ValueError(f"there are no slots of {slot.width} s at {slot.start}")

    def shift(self, seconds: float) -> None:
        """The clock was set: everything moves by a whole number of the widest slots, the rest is given up."""
        by = round(seconds / TIERS[-1][0]) * TIERS[-1][0]
        if not by:
            return
        for number, tier in enumerate(self._tiers):
            moved = list(tier.values())
            for slot in moved:
                slot.start += by
                slot.changed = True
                if slot.single is not None:
                    slot.single = [sample._replace(at=sample.at + by) for sample in slot.single]
                slot.slowest = [request._replace(at=request.at + by) for request in slot.slowest]
            self._tiers[number] = {slot.start: slot for slot in moved}
        self._newest += by

    def _between(self, since: float, until: float) -> Iterator[Slot]:
        for tier in self._tiers:
            yield from (slot for slot in tier.values() if slot.end > since and slot.start < until)

    def _age(self) -> None:
        for number, (_, reach) in enumerate(TIERS):
            tier = self._tiers[number]
            for start in [start for start, slot in tier.items() if slot.end <= self._newest - reach]:
                slot = tier.pop(start)
                if number + 1 < len(TIERS):
                    width = TIERS[number + 1][0]
                    wider = self._tiers[number + 1]
                    into = _start(start + slot.width / 2, width)
                    wider.setdefault(into, Slot(into, width)).take_in(slot)


def add_sample(sums: Sums, sample: Sample) -> None:
    """Adds one sample to its group."""
    sketches = sums.get(sample.group)
    if sketches is None:
        sketches = sums[sample.group] = [Sketch() for _ in VALUES[sample.group.kind]]
    for sketch, value in zip(sketches, sample.values, strict=False):
        if value is not None:
            sketch.add(value)


def add_sums(into: Sums, sums: Sums, lasting: bool = False) -> None:
    """Adds group by group. `lasting`: leaves out pairs of targets, of which there may be very many."""
    for group, sketches in sums.items():
        if lasting and group.kind == "pair":
            continue
        mine = into.get(group)
        if mine is None:
            mine = into[group] = [Sketch() for _ in sketches]
        for sketch, other in zip(mine, sketches, strict=True):
            sketch.merge(other)


def merged(sums: Sums, groups: Iterable[Group], value: int) -> Sketch:
    """One value's sketch over several groups."""
    whole = Sketch()
    for group in groups:
        whole.merge(sums[group][value])
    return whole


def width_at(age: float) -> float:
    """Of the slots that hold what is so old; more than an hour makes no difference."""
    return next((width for width, reach in TIERS if age < reach), TIERS[-1][0])


def _start(at: float, width: float) -> float:
    """Where the slot (start, start + width] that holds `at` begins."""
    steps = at // width
    return (steps - 1 if at == steps * width else steps) * width
