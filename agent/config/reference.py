"""Every setting there is. In: the dataclasses. Out: key path, environment variable, kind, default, meaning of each.

The environment is read by it, and the table in `docs/configuration.md` is made by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from agent.config.fields import Kind, keys_of
from agent.config.types import Config

ENVIRONMENT_PREFIX = "PDWATCH_"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting. `variable` is empty for what lies inside a list or a named section, which has no variable."""

    path: str
    variable: str
    kind: Kind
    default: str
    meaning: str
    secret: bool


def settings(cls: type = Config, path: str = "", named: bool = False) -> Iterator[SettingRow]:
    """Every setting below `cls`, sections opened, in the order of the dataclasses."""
    for field in keys_of(cls):
        kind: Kind = field.metadata["kind"]
        here = f"{path}.{field.metadata['key']}" if path else str(field.metadata["key"])
        is_leaf = kind.section is None or bool(kind.many)
        if is_leaf:
            variable = "" if named else variable_of(here)
            meaning, secret = field.metadata["meaning"], field.metadata["secret"]
            yield SettingRow(here, variable, kind, _default_text(field), meaning, secret)
        if kind.section is not None:
            yield from settings(kind.section, here + kind.many, named or bool(kind.many))


def variable_of(path: str) -> str:
    """The environment variable of a key path: `scrape.interval` is PDWATCH_SCRAPE_INTERVAL."""
    return ENVIRONMENT_PREFIX + path.replace(".", "_").upper()


def markdown_table() -> str:
    """The settings as the table of the documentation."""
    lines = ["| key | kind | default | meaning | environment |", "|---|---|---|---|---|"]
    for row in settings():
        variable = f"`{row.variable}`" if row.variable else ""
        lines.append(
            f"| `{row.path}` | {row.kind.says} | {row.default} | {row.meaning} | {variable} |".replace("  ", " ")
        )
    return "\n".join(lines) + "\n"


def _default_text(field: dataclasses.Field[object]) -> str:
    kind: Kind = field.metadata["kind"]
    if field.metadata["default_says"]:
        return str(field.metadata["default_says"])
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default in (None, "", ()):
        return ""
    return f"`{kind.show(field.default)}`"
