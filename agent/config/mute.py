"""Maintenance windows: when alerts that pdwatch itself sends are held back. In: nodes, and `now`. Out: open or not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from agent.config.fields import TEXT, Contradiction, Kind, list_of, setting
from agent.config.node import Node, nearest

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def read_label_pairs(node: Node) -> tuple[tuple[str, str], ...]:
    """Label names and texts of a mapping. Raises ConfigError for what is no label."""
    pairs = []
    for name, child in node.mapping().items():
        if not _LABEL_NAME.fullmatch(name) or name.startswith("__"):
            raise child.error("a label's name has letters, digits and '_', no digit first, and no '__' in front")
        pairs.append((name, str(TEXT.read(child))))
    return tuple(pairs)


def _moment(node: Node) -> float:
    text = node.scalar().strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise node.error(f"{text!r} is not a time; write 2026-11-30T22:00:00+01:00") from None
    if moment.tzinfo is None:
        raise node.error(f"{text!r} has no time zone; write 2026-11-30T22:00:00Z or ...+01:00")
    return moment.timestamp()


def _hours(node: Node) -> str:
    text = node.scalar().strip()
    match = _HOURS.fullmatch(text)
    if match is None or (match[1], match[2]) == (match[3], match[4]):
        raise node.error(f"{text!r} is not a time of day; write 22:00-04:00")
    return text


def _weekday(node: Node) -> str:
    text = node.scalar().strip().lower()
    for day in WEEKDAYS:
        if text in (day, day[:3]):
            return day
    raise node.error(f"{text!r} is not a day; {nearest(text, WEEKDAYS)}")


def _timezone(node: Node) -> str:
    text = node.scalar().strip()
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise node.error(f"{text!r} is not a time zone that this machine knows; write UTC or Europe/Berlin") from None
    return text


@dataclass(frozen=True, slots=True)
class Mute:
    """A maintenance window: what matches all of `labels` is not sent while it lasts.

    Either once, `from` to `to`, or every day between two hours (`hours: 22:00-04:00`) in a time zone, on some weekdays.
    """

    from_seconds: float | None = setting("from", Kind("time", _moment), None, "Begin, ISO 8601 with zone")
    to_seconds: float | None = setting("to", Kind("time", _moment), None, "End, ISO 8601 with zone")
    hours: str | None = setting("hours", Kind("HH:MM-HH:MM", _hours), None, "Every day between two hours")
    weekdays: tuple[str, ...] = setting(
        "weekdays",
        list_of(_weekday, "list of days"),
        (),
        "Only when `hours` begin on these days",
    )
    timezone: str = setting("timezone", Kind("time zone", _timezone), "UTC", "Time zone of `hours`")
    labels: tuple[tuple[str, str], ...] = setting(
        "labels",
        Kind("label: text", read_label_pairs, single=False, pairs=True),
        (),
        "Only alerts with all these labels",
    )
    comment: str = setting("comment", TEXT, "", "Why, shown beside what is muted")

    def __post_init__(self) -> None:
        once = self.from_seconds is not None or self.to_seconds is not None
        if once == (self.hours is not None):
            raise Contradiction("hours", "give 'from' and 'to' (once), or 'hours' (every day), one of the two")
        if once and (self.from_seconds is None or self.to_seconds is None):
            raise Contradiction("from", "'from' and 'to' go together")
        if self.from_seconds is not None and self.to_seconds is not None and self.to_seconds <= self.from_seconds:
            raise Contradiction("to", "must be after 'from'")
        if self.weekdays and self.hours is None:
            raise Contradiction("weekdays", "goes with 'hours'")

    def covers(self, now: float) -> bool:
        """Whether the window is open at `now` (unix seconds)."""
        if self.from_seconds is not None and self.to_seconds is not None:
            return self.from_seconds <= now < self.to_seconds
        begin, end = (time.fromisoformat(part) for part in str(self.hours).split("-"))
        local = datetime.fromtimestamp(now, ZoneInfo(self.timezone))
        clock = local.time().replace(tzinfo=None)
        if begin < end:
            return begin <= clock < end and self._on(local)
        # Over midnight: the hours after midnight belong to the day on which they began.
        if clock >= begin:
            return self._on(local)
        return clock < end and self._on(local - timedelta(days=1))

    def _on(self, day: datetime) -> bool:
        return not self.weekdays or WEEKDAYS[day.weekday()] in self.weekdays
