"""Moments as receivers want them. In: unix seconds. Out: RFC 3339 text in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

NEVER = "0001-01-01T00:00:00Z"
"""What Alertmanager's webhook writes for an end that is not there yet."""


def rfc3339(seconds: float) -> str:
    """To the millisecond: 2026-11-30T22:00:00.000Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_time(seconds: float) -> str:
    """For people: 22:00:05 UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")
