"""The walk of one objective: ok -> pending -> firing -> resolved -> ok.

In: one signal (bad, good, near, unknown) at a time, with its moment. Out: the next `Track` and what changed, so that a
person is called once per incident and called off once.

- `bad` must stand for `hold` before it fires; anything that is certainly not bad starts the hold again.
- A firing one ends when `good` (better than the hysteresis line) stood for `clear`. `near` does not end it.
- `unknown` (no data, too few, undecided, a scrape that failed, an evaluation that never came) is a gap. A gap up to
  `gap` changes nothing; a longer one starts hold and clear again, for what happened in it is not known. It never
  resolves: a firing one fires until it is seen to be good.
- `resolved` is shown for `RESOLVED_SECONDS`.

A track is a few numbers; saved and restored it goes on as if nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from agent.errors import StateError
from agent.verdicts.judging import Signal

StatusWord = Literal["ok", "pending", "firing", "resolved"]

RESOLVED_SECONDS = 900.0
ROUNDING_SECONDS = 1e-6
"""Sums of scrape intervals at unix times: a hold of 120 s is over at 119.9999999 s."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long things must stand, in seconds."""

    hold_seconds: float
    clear_seconds: float
    gap_seconds: float


@dataclass(frozen=True, slots=True)
class Track:
    """Where one objective is on its walk; every moment is in unix seconds, None: not so.

    `seen_at`: the last signal of any kind. `known_at`: the last that was not unknown. `bad_since`, `good_since`: the
    unbroken stretches that hold and clear measure. `began_at`: when the breach of the present or last incident
    began. `fired_at`: since when it fires. `resolved_at`: when the last incident ended. `incidents`: how many fired.
    """

    seen_at: float | None = None
    known_at: float | None = None
    bad_since: float | None = None
    good_since: float | None = None
    began_at: float | None = None
    fired_at: float | None = None
    resolved_at: float | None = None
    ok_since: float | None = None
    incidents: int = 0

    def status(self, now: float) -> StatusWord:
        """The status at `now`, which is not before the last signal."""
        if self.fired_at is not None:
            return "firing"
        if self.bad_since is not None:
            return "pending"
        return "resolved" if self._is_resolved(now) else "ok"

    def since(self, now: float) -> float | None:
        """Since when the status is what it is; None before the first signal."""
        if self.fired_at is not None:
            return self.fired_at
        if self.bad_since is not None:
            return self.bad_since
        if self.resolved_at is None:
            return self.ok_since
        if self._is_resolved(now):
            return self.resolved_at
        expired = self.resolved_at + RESOLVED_SECONDS
        return expired if self.ok_since is None else max(expired, self.ok_since)

    def shifted(self, seconds: float) -> Track:
        """The same walk after the clock was set by `seconds`."""
        moved = {
            field.name: value + seconds
            for field in fields(self)
            if field.name != "incidents" and (value := getattr(self, field.name)) is not None
        }
        return replace(self, **moved)

    def to_json(self) -> dict[str, float | int | None]:
        """Plain numbers; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Track:
        """Raises StateError where the data are of another form."""
        found: dict[str, Any] = {}
        for field in fields(cls):
            value = saved.get(field.name)
            if field.name == "incidents":
                found[field.name] = value if isinstance(value, int) else 0
            elif value is not None:
                if not isinstance(value, int | float) or not math.isfinite(value):
                    raise StateError(f"saved status has {field.name} = {value!r}, which is no time; it starts anew")
                found[field.name] = float(value)
        return cls(**found)

    def _is_resolved(self, now: float) -> bool:
        return self.resolved_at is not None and now - self.resolved_at < RESOLVED_SECONDS


@dataclass(frozen=True, slots=True)
class Step:
    """What one signal did: the new track, and whether it began or ended an incident."""

    track: Track
    before: StatusWord
    after: StatusWord

    @property
    def triggered(self) -> bool:
        """True where a person has to be called."""
        return self.after == "firing" and self.before != "firing"

    @property
    def resolved(self) -> bool:
        """True where the call has to be taken back."""
        return self.before == "firing" and self.after != "firing"


def step(track: Track, signal: Signal, now: float, times: Times) -> Step:
    """The track after `signal` at `now`.

    A `now` before the last one means that the clock was set back unseen: the walk is moved along with it, so that no
    stretch gets longer or shorter than what was watched.
    """
    if track.seen_at is not None and now < track.seen_at:
        track = track.shifted(now - track.seen_at)
    before = track.status(now)
    track = _after_gap(track, now, times.gap_seconds)
    if track.fired_at is None:
        track = _towards_firing(track, signal, now, times.hold_seconds)
    else:
        track = _towards_resolved(track, signal, now, times.clear_seconds)
    known_at = track.known_at if signal == "unknown" else now
    track = replace(track, seen_at=now, known_at=known_at)
    if track.fired_at is None and track.bad_since is None and (track.ok_since is None or before == "pending"):
        track = replace(track, ok_since=now)
    return Step(track, before, track.status(now))


def _after_gap(track: Track, now: float, gap_seconds: float) -> Track:
    """Forgets stretches that a long gap has interrupted."""
    if track.known_at is None or now - track.known_at <= gap_seconds + ROUNDING_SECONDS:
        return track
    return replace(track, bad_since=None if track.fired_at is None else track.bad_since, good_since=None)


def _towards_firing(track: Track, signal: Signal, now: float, hold_seconds: float) -> Track:
    if signal == "unknown":
        return track
    if signal != "bad":
        return replace(track, bad_since=None)
    since = now if track.bad_since is None else track.bad_since
    if now - since < hold_seconds - ROUNDING_SECONDS:
        return replace(track, bad_since=since)
    return replace(track, bad_since=since, began_at=since, fired_at=now, good_since=None, incidents=track.incidents + 1)


def _towards_resolved(track: Track, signal: Signal, now: float, clear_seconds: float) -> Track:
    if signal == "unknown":
        return track
    if signal != "good":
        return replace(track, good_since=None)
    since = now if track.good_since is None else track.good_since
    if now - since < clear_seconds - ROUNDING_SECONDS:
        return replace(track, good_since=since)
    return replace(track, good_since=None, bad_since=None, fired_at=None, resolved_at=now, ok_since=now)
