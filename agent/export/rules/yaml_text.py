"""YAML that a person can read and a diff can show. In: plain values. Out: text, keys in the order given.

Texts of several lines stand as blocks; comments stand before what they speak of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import indent

import yaml

WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Blocks for texts of several lines, no aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class names it
        """Equal values are written out each time: `&id001` helps nobody."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Lists are indented below their key."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dumped(value: object) -> str:
    """One value as YAML."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)


def commented(lines: Iterable[str]) -> str:
    """Comment lines."""
    return "".join(f"# {line}\n" if line else "#\n" for line in lines)


def item(value: object, comments: Sequence[str] = ()) -> str:
    """One entry of a list, its comments before it."""
    return commented(comments) + dumped([value])


def below(text: str, spaces: int) -> str:
    """The text moved to the right, empty lines left empty."""
    return indent(text, " " * spaces)
