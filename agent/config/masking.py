"""The configuration in force, to be shown. In: a `Config`. Out: the same tree as the file's, with every
secret masked.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from agent.config.fields import keys_of
from agent.config.pools import Pool, Target
from agent.config.types import Config

MASK = "***"

_QUERY_VALUE = re.compile(r"([?&][^=&]*=)[^&]*")


def masked(config: Config) -> dict[str, Any]:
    """Every setting by its key, defaults included; a secret that is given reads `***`, as do values in a URL's query.

    Durations are seconds and sizes bytes. The result holds only what JSON and YAML know.
    """
    return _section(config)


def _section(value: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for field in keys_of(type(value)):
        held = getattr(value, field.name)
        if field.metadata["secret"] and held:
            shown[field.metadata["key"]] = MASK
        elif field.metadata["kind"].pairs:
            shown[field.metadata["key"]] = dict(_pair(item) for item in held)
        else:
            shown[field.metadata["key"]] = _plain(held)
    return shown


def _pair(item: Any) -> tuple[str, Any]:
    match item:
        case Pool():
            return item.name, _section(item)
        case Target():
            return item.name, _plain(item.url)
        case (str(name), text):
            return name, text
        case _:
            raise TypeError(f"no pair: {item!r}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _section(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str) and "://" in value:
        return _QUERY_VALUE.sub(rf"\1{MASK}", value)
    return value
