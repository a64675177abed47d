"""How a dataclass becomes a section of the configuration.

In: dataclasses whose fields say their key, kind, default and meaning (`setting(...)`). Out: instances built from nodes.
The same fields name the environment variables and make the table in `docs/configuration.md`, so none can be forgotten.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent.config.node import Node, nearest
from agent.config.quantities import duration_seconds, duration_text, size_bytes, size_text

T = TypeVar("T")

REQUIRED: Any = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value: how it is read from a node, and what it is called in the documentation."""

    says: str
    read: Callable[[Node], Any]
    section: type | None = None
    """The dataclass behind the value (or behind each entry), for the documentation."""
    many: str = ""
    """`.<name>` for a mapping of sections, `[]` for a list of them."""
    single: bool = True
    """One scalar, which the environment gives as it is; anything else is given there as one line of YAML."""
    pairs: bool = False
    """Names with a value each: written as a mapping, held as a tuple, which cannot be changed."""
    show: Callable[[Any], str] = str
    """How a default of this kind is written."""


class Contradiction(Exception):
    """Two settings of one section that cannot both hold: the key to blame and a sentence."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key
        self.what = what


def setting(key: str, kind: Kind, default: Any, meaning: str, *, secret: bool = False, default_says: str = "") -> Any:
    """A dataclass field read from `key`. With `REQUIRED` as default, leaving it out is an error.

    A `secret` is neither printed nor shown. `default_says` describes a default that depends on other settings.
    """
    metadata = {"key": key, "kind": kind, "meaning": meaning, "secret": secret, "default_says": default_says}
    return dataclasses.field(default=default, repr=not secret, metadata=metadata)


def keys_of(cls: type[Any]) -> Sequence[dataclasses.Field[Any]]:
    """The fields of `cls` that are settings, in order."""
    return [field for field in dataclasses.fields(cls) if "kind" in field.metadata]


def build(cls: type[T], node: Node, **given: Any) -> T:
    """An instance of `cls` from the mapping at `node`; fields without a `setting` come from `given`.

    Null and empty text mean the default. Raises ConfigError for an unknown, missing or unusable key, and for
    what `cls.__post_init__` refuses.
    """
    children = {} if node.value is None else node.mapping()
    fields = keys_of(cls)
    if children:
        node.refuse_unknown(field.metadata["key"] for field in fields)
    for field in fields:
        child = children.get(field.metadata["key"])
        if child is not None and not child.is_null:
            given[field.name] = field.metadata["kind"].read(child)
        elif field.default is dataclasses.MISSING:
            raise node.error(f"'{field.metadata['key']}' is required: {field.metadata['meaning']}")
    try:
        return cls(**given)
    except Contradiction as contradiction:
        raise children.get(contradiction.key, node).error(contradiction.what) from None


# ------------------------------------------------------------------------------------------------------------
# kinds
# ------------------------------------------------------------------------------------------------------------


def _read_text(node: Node) -> str:
    text = node.scalar().strip()
    if not text:
        raise node.error("must not be empty")
    if not text.isprintable():
        raise node.error("holds a line break or another character that cannot be printed")
    return text


def _read_flag(node: Node) -> bool:
    text = node.scalar().strip().lower()
    if text not in ("true", "false"):
        raise node.error(f"must be true or false, not {text!r}")
    return text == "true"


TEXT = Kind("text", _read_text)
PATH = Kind("path", lambda node: str(Path(node.base, _read_text(node)).expanduser()))
FLAG = Kind("true or false", _read_flag, show=lambda value: str(value).lower())


def choice(*names: str) -> Kind:
    """One word out of `names`."""

    def read(node: Node) -> str:
        text = node.scalar().strip()
        if text not in names:
            raise node.error(f"{text!r} is not valid; {nearest(text, names)}")
        return text

    return Kind(" or ".join(f"`{name}`" for name in names) if len(names) < 5 else "one word", read)


def integer(low: int, high: int | None = None) -> Kind:
    """A whole number from `low` to `high`."""

    def read(node: Node) -> int:
        text = node.scalar().strip()
        try:
            value = int(text)
        except ValueError:
            raise node.error(f"must be a whole number, not {text!r}") from None
        return int(_inside(node, value, low, high, str))

    return Kind("whole number", read)


def number(low: float, high: float | None = None, *, above: bool = False) -> Kind:
    """A number from `low` (with `above`: more than `low`) to `high`."""

    def read(node: Node) -> float:
        text = node.scalar().strip()
        try:
            value = float(text)
        except ValueError:
            raise node.error(f"must be a number, not {text!r}") from None
        if math.isnan(value) or (above and value <= low):
            raise node.error(f"must be a number above {low:g}, not {text}")
        return _inside(node, value, low, high, lambda bound: f"{bound:g}")

    return Kind("number", read, show=lambda value: f"{value:g}")


def duration(low: float = 0.0, high: float | None = None) -> Kind:
    """Seconds, as a number or with a unit."""

    def read(node: Node) -> float:
        try:
            value = duration_seconds(node.scalar())
        except ValueError as error:
            raise node.error(str(error)) from None
        return _inside(node, value, low, high, duration_text)

    return Kind("duration", read, show=duration_text)


def size(low: int) -> Kind:
    """Bytes, as a number or with a unit."""

    def read(node: Node) -> int:
        try:
            value = size_bytes(node.scalar())
        except ValueError as error:
            raise node.error(str(error)) from None
        return int(_inside(node, value, low, None, size_text))

    return Kind("size", read, show=size_text)


def section(cls: type) -> Kind:
    """A nested section. Left out or null, every setting in it has its default."""
    return Kind("section", lambda node: build(cls, node), section=cls, single=False)


def list_of(read_item: Callable[[Node], Any], says: str, cls: type | None = None) -> Kind:
    """A list, each entry read by `read_item`."""

    def read(node: Node) -> tuple[Any, ...]:
        return tuple(read_item(item) for item in node.items())

    return Kind(says, read, section=cls, many="[]", single=False)


def _inside(node: Node, value: float, low: float, high: float | None, text: Callable[[Any], str]) -> float:
    if value < low:
        raise node.error(f"must be at least {text(low)}, not {text(value)}")
    if high is not None and value > high:
        raise node.error(f"must be at most {text(high)}, not {text(value)}")
    return value
