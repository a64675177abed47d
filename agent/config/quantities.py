"""Durations and sizes as people write them. In: text such as `20ms` or `64MiB`. Out: seconds or bytes.

The same grammar serves the configuration file, the environment and the command line.
"""

from __future__ import annotations

import math
import re

_NUMBER_WITH_UNIT = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)")

_UNIT_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_UNIT_BYTES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def duration_seconds(text: str) -> float:
    """Seconds in `text`: a plain number of seconds, or one with a unit (`20ms`, `5s`, `5m`, `12h`, `3d`).

    Raises ValueError with a sentence that says what is accepted.
    """
    number, unit = _split(text)
    if number is None or unit not in _UNIT_SECONDS:
        raise ValueError(f"{text!r} is not a duration; write seconds as a number, or 20ms, 5s, 5m, 12h, 3d")
    # 20ms must be the float 0.02 that a person writes, not 20 * 0.001 = 0.02 plus a rounding error.
    seconds = number / 1000.0 if unit == "ms" else number * _UNIT_SECONDS[unit]
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is too long for a duration")
    return seconds


def size_bytes(text: str) -> int:
    """Bytes in `text`: a plain number of bytes, or one with a unit (`500kB`, `64MiB`, `2GB`).

    Raises ValueError with a sentence that says what is accepted.
    """
    number, unit = _split(text)
    if number is None or unit not in _UNIT_BYTES:
        raise ValueError(f"{text!r} is not a size; write bytes as a number, or 500kB, 64MiB, 2GiB")
    size = number * _UNIT_BYTES[unit]
    if not math.isfinite(size):
        raise ValueError(f"{text!r} is too large for a size")
    return int(size)


def duration_text(seconds: float) -> str:
    """The shortest way to write `seconds` that `duration_seconds` reads back as the same value."""
    if seconds == 0:
        return "0s"
    for unit in ("d", "h", "m"):
        count = seconds / _UNIT_SECONDS[unit]
        if count == int(count) and duration_seconds(f"{int(count)}{unit}") == seconds:
            return f"{int(count)}{unit}"
    if seconds < 1 and duration_seconds(f"{seconds * 1000:.12g}ms") == seconds:
        return f"{seconds * 1000:.12g}ms"
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds!r}s"


def size_text(size: float) -> str:
    """The shortest way to write `size` bytes that `size_bytes` reads back as the same value."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNIT_BYTES[unit] == 0:
            return f"{int(size // _UNIT_BYTES[unit])}{unit}"
    return f"{int(size)}B"


def _split(text: str) -> tuple[float | None, str]:
    match = _NUMBER_WITH_UNIT.fullmatch(text.strip())
    return (float(match[1]), match[2]) if match else (None, "")
