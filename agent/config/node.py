"""One place in a configuration. In: what the file, the environment or a flag gave. Out: the value, or an
error that says where.

A scalar stays the text that was written, until the setting that it belongs to says what it means: `no` is a fine
name for a deployment, and `20` from an environment variable is as good a number as `20` in a file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from agent.errors import ConfigError

MOST_NAMES = 20
"""How many valid names an error lists at most."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its key path (`pools.prefill.role`, `objectives[1].name`) and where it was written
    (`pdwatch.yaml:12`).
    """

    value: str | dict[str, Node] | list[Node] | None
    path: str
    where: str
    base: str = ""
    """The folder that relative paths start from; empty: the current one."""

    def error(self, what: str) -> ConfigError:
        """One line: file and line, key path, what is wrong."""
        return ConfigError(": ".join(part for part in (self.where, self.path, what) if part))

    def child_path(self, key: str) -> str:
        """The key path of `key` below this node."""
        return f"{self.path}.{key}" if self.path else key

    def mapping(self) -> dict[str, Node]:
        """The keys below. Raises ConfigError when this is not a mapping."""
        if not isinstance(self.value, dict):
            raise self.error(f"must be a mapping (key: value), not {self._shape()}")
        return self.value

    def items(self) -> list[Node]:
        """The entries of a list. Raises ConfigError when this is not a list."""
        if not isinstance(self.value, list):
            raise self.error(f"must be a list, not {self._shape()}")
        return self.value

    def scalar(self) -> str:
        """The text as written. Raises ConfigError when this is null, a list or a mapping."""
        if not isinstance(self.value, str):
            raise self.error(f"must be a single value, not {self._shape()}")
        return self.value

    @property
    def is_null(self) -> bool:
        """Nothing was written: `null`, `~`, or empty text (as from an unset `${NAME:-}`)."""
        return self.value is None or (isinstance(self.value, str) and not self.value.strip())

    def refuse_unknown(self, valid: Iterable[str]) -> None:
        """Raise ConfigError at the first key that is not one of `valid`, with the nearest valid name."""
        names = list(valid)
        for key, child in self.mapping().items():
            if key not in names:
                raise child.error(f"unknown key; {nearest(key, names)}")

    def _shape(self) -> str:
        if self.value is None:
            return "empty"
        if isinstance(self.value, str):
            return f"the single value {self.value!r}"
        return "a mapping" if isinstance(self.value, dict) else "a list"


def nearest(name: str, valid: Iterable[str]) -> str:
    """`did you mean X?` for the nearest of `valid`, or the whole list where nothing is near."""
    names = list(valid)
    close = difflib.get_close_matches(name.lower(), [known.lower() for known in names], n=1, cutoff=0.6)
    if close:
        return "did you mean " + next(known for known in names if known.lower() == close[0]) + "?"
    shown = names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], "..."]
    return "valid: " + ", ".join(shown)
