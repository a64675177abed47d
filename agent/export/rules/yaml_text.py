"""YAML that a person can read and a diff can show. In: plain values. Out: text, keys in the order given.

Texts of several lines stand as blocks; comments stand before what they speak of. Written here, since committed files
must not change with a library's version, and since a library takes seconds for thousands of series.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import indent

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*(?: [A-Za-z0-9_/.-]+)*")
_WORDS_WITH_MEANING = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def dumped(value: object) -> str:
    """One mapping, list or scalar as YAML, a line break at its end."""
    return "\n".join(_lines(value)) + "\n"


def commented(lines: Iterable[str]) -> str:
    """Comment lines."""
    return "".join(f"# {line}\n" if line else "#\n" for line in lines)


def item(value: object, comments: Sequence[str] = ()) -> str:
    """One entry of a list, its comments before it."""
    return commented(comments) + dumped([value])


def below(text: str, spaces: int) -> str:
    """The text moved to the right, empty lines left empty."""
    return indent(text, " " * spaces)


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{_scalar(key)}:", inner)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            yield from _of_list(inner)
    else:
        yield _scalar(value)


def _entry(key: str, value: object) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value:
        yield f"{key} |" if value.endswith("\n") else f"{key} |-"
        yield from (f"  {line}" if line else "" for line in value.rstrip("\n").split("\n"))
    elif isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (f"  {line}" if line else "" for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _of_list(value: object) -> Iterator[str]:
    lines = _lines(value)
    yield f"- {next(lines)}"
    yield from (f"  {line}" if line else "" for line in lines)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping | list | tuple):
        return "{}" if isinstance(value, Mapping) else "[]"
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_WITH_MEANING:
        return text
    return "'" + text.replace("'", "''") + "'"
