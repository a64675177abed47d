"""The text formats of metrics pages, line by line. In: lines. Out: names, labels and values.

Knows the Prometheus text format (0.0.4 and 1.0.0) and OpenMetrics, and nothing about vLLM. A sample line is

    name{label="value",...} VALUE [TIMESTAMP] [# {exemplar labels} VALUE [TIMESTAMP]]

and everything before VALUE is called its *key*: from page to page the keys stay the same while the values move.
"""

from __future__ import annotations

import re
from math import inf, nan
from typing import NamedTuple

UNREADABLE = -inf
"""Stands for a value that is no number: neither a count nor a useful gauge is ever minus infinity."""

NAN = nan
"""The one NaN: lists that hold the same object compare as equal."""

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_SAMPLE = re.compile(rf"[ \t]*+({_NAME})(?:[ \t]*+\{{((?:[^\"}}]|{_QUOTED})*+)\}}[ \t]*+|[ \t]++)")
_LABEL = re.compile(rf"[ \t]*+([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*+=[ \t]*+({_QUOTED})[ \t]*+(?:,|$)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


class Key(NamedTuple):
    """A sample line up to its value: the metric's name, the text between the braces, and the length of it all."""

    name: str
    labels: str
    length: int


class Declaration(NamedTuple):
    """A `# TYPE family kind` line."""

    family: str
    kind: str


def key(line: str) -> Key | None:
    """Return the key of a sample line, or None when the line has no such form."""
    match = _SAMPLE.match(line)
    return None if match is None else Key(match[1], match[2] or "", match.end())


def labels(text: str) -> dict[str, str] | None:
    """Return the labels between two braces, escapes resolved; None when they are broken or one comes twice."""
    found: dict[str, str] = {}
    position = 0
    end = len(text.rstrip(" \t"))
    while position < end:
        match = _LABEL.match(text, position)
        if match is None or match[1] in found:
            return None
        value = match[2][1:-1]
        found[match[1]] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
        position = match.end()
    return found


def value(text: str) -> float:
    """Return the value that a line holds after its key; UNREADABLE for anything that is not a number.

    A timestamp and an exemplar are passed over. NaN is always `NAN`.
    """
    try:
        number = float(text)
    except ValueError:
        fields = text.split(" # ", 1)[0].split()
        if len(fields) == 1:
            return _float(fields[0])
        if len(fields) != 2:
            return UNREADABLE
        return UNREADABLE if _float(fields[1]) == UNREADABLE else _float(fields[0])
    return NAN if number != number else number


def declaration(line: str) -> Declaration | None:
    """Return what a comment line declares about a family's type, if anything."""
    fields = line.split()
    if len(fields) != 4 or fields[0] != "#" or fields[1] != "TYPE":
        return None
    return Declaration(fields[2].strip('"'), fields[3])


def _float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return UNREADABLE
    return NAN if number != number else number


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[0])
