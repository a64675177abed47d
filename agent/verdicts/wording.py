"""Words for people: numbers come in, short phrases with units go out."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A length of time as a person says it: 45 s, 12 min, 3.5 h, 2.1 d."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 time, 3 times."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def percent(share: float) -> str:
    """A share 0..1 as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def milliseconds(seconds: float) -> str:
    """A short time: 17.3 ms, or seconds from one second on."""
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def size(size_bytes: float | None) -> str:
    """Bytes as a person says them: 47.5 MiB, 1.2 GiB; negative sizes keep their sign."""
    if size_bytes is None:
        return "an unknown size"
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"
