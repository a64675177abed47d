"""The state as JSON, exactly in the names of docs/state.md. In: a `State`. Out: a dict, or its text.

The value types already carry the public names in their fields, so that nothing is translated here: only what JSON
cannot hold (NaN, infinities) becomes null.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from agent.state import State


def state_text(state: State) -> str:
    """One line of JSON, ASCII only, keys in the order of the types."""
    try:
        return _ENCODER.encode(state)
    except ValueError:  # a NaN or an infinity somewhere: rare, so it pays only then to look at every value
        return _ENCODER.encode(state_dict(state))


def state_dict(state: State) -> dict[str, Any]:
    """Dicts, lists, strings, numbers and None; every number finite."""
    return {name: _plain(value) for name, value in _fields_of(state).items()}


_Reader = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
_READERS: dict[type, _Reader] = {}
"""Dataclass -> its field names and what takes their values out: a large deployment has a hundred thousand values."""


def _reader(kind: type) -> _Reader:
    given = [field.name for field in dataclasses.fields(kind)]
    # `type` says what a line is, so that a reader wants it first; its default keeps it last in the dataclass.
    names = sorted(given, key=lambda name: name != "type")
    # A name twice: with a single one attrgetter gives the bare value, and zip passes over the second.
    reader = _READERS[kind] = (tuple(names), attrgetter(*names, names[0]))
    return reader


def _fields_of(value: Any) -> dict[str, Any]:
    names, values = _READERS.get(type(value)) or _reader(type(value))
    return dict(zip(names, values(value), strict=False))


def _shallow(value: Any) -> Any:
    """What the encoder does not know by itself, one level deep."""
    if dataclasses.is_dataclass(value):
        return _fields_of(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in the state")


_ENCODER = json.JSONEncoder(default=_shallow, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in _fields_of(value).items()}
