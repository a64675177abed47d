"""Single keys from a terminal. In: its bytes. Out: names of keys; and the terminal as it was, whatever happens."""

from __future__ import annotations

import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

_SEQUENCES: Mapping[bytes, str] = MappingProxyType(
    {
        b"A": "up",
        b"B": "down",
        b"C": "right",
        b"D": "left",
        b"F": "end",
        b"H": "home",
        b"Z": "back tab",
        b"1~": "home",
        b"4~": "end",
        b"5~": "page up",
        b"6~": "page down",
        b"7~": "home",
        b"8~": "end",
    }
)
_FINAL = range(0x40, 0x7F)


def keys_in(data: bytes) -> list[str]:
    """The keys of what one read gave. Sequences that are not known, and half ones, are passed over."""
    keys = []
    while data:
        if data[:2] in (b"\x1b[", b"\x1bO"):
            end = next((index for index in range(2, len(data)) if data[index] in _FINAL), len(data) - 1)
            found = _SEQUENCES.get(data[2 : end + 1])
            data = data[end + 1 :]
        else:
            found = {9: "tab", 32: "page down"}.get(data[0], chr(data[0]) if 32 < data[0] < 127 else None)
            data = data[1:]
        if found is not None:
            keys.append(found)
    return keys


@contextmanager
def single_keys(descriptor: int) -> Iterator[None]:
    """Keys come one by one and are not echoed; Ctrl-C and Ctrl-Z still signal."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
