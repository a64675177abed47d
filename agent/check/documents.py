"""A configuration file that cannot be loaded, seen whole. In: its path, the environment. Out: all problems it tells.

Loading stops at the first problem. Unknown keys, the usual ones, are found here all at once; of the rest the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.config.document import MAX_FILE_BYTES, read_document
from agent.config.fields import Kind, keys_of
from agent.config.node import Node, nearest
from agent.config.types import Config
from agent.errors import ConfigError


def problems_of_file(path: str | None, environ: Mapping[str, str], first: ConfigError) -> list[str]:
    """One line each, in the order of the file. `first` is what loading said."""
    found = [] if path is None else _unknown_keys_of(Path(path), environ)
    return found if str(first) in found else [*found, str(first)]


def unknown_keys(node: Node, section: type[Any] = Config) -> Iterator[ConfigError]:
    """Every key below `node` that its section does not know, with the nearest valid name."""
    kinds: dict[str, Kind] = {str(field.metadata["key"]): field.metadata["kind"] for field in keys_of(section)}
    for key, child in (node.value if isinstance(node.value, dict) else {}).items():
        kind = kinds.get(key)
        if kind is None:
            yield child.error(f"unknown key; {nearest(key, kinds)}")
        elif kind.section is not None:
            for inner in _sections(child, kind):
                yield from unknown_keys(inner, kind.section)


def _sections(node: Node, kind: Kind) -> list[Node]:
    if not kind.many:
        return [node]
    if isinstance(node.value, dict) and kind.many != "[]":
        return list(node.value.values())
    return node.value if isinstance(node.value, list) else []


def _unknown_keys_of(path: Path, environ: Mapping[str, str]) -> list[str]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1).decode("utf-8-sig")
        return [str(error) for error in unknown_keys(read_document(text, str(path), environ))]
    except (OSError, UnicodeDecodeError, ConfigError):
        return []  # the file as a whole is unusable, and loading has said why
