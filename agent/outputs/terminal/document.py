"""A state document as it came. In: parsed JSON. Out: its parts by name; what is missing is just unknown.

An older or a newer pdwatch may leave a field out, add others, or mean another kind: a viewer shows what it understands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from agent.outputs.terminal.words import clean


class Part:
    """One value of the document, of whatever kind."""

    def __init__(self, value: object = None) -> None:
        self._value = value

    def part(self, *names: str) -> Part:
        """What stands under these names, one inside the other."""
        value = self._value
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return Part(value)

    def number(self, *names: str) -> float | None:
        """A finite number."""
        value = self.part(*names)._value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None

    def text(self, *names: str) -> str:
        """A text that a terminal may be given; "" for anything else."""
        value = self.part(*names)._value
        return clean(value) if isinstance(value, str) else ""

    def says(self, *names: str) -> bool | None:
        """True or false; None where neither is said."""
        value = self.part(*names)._value
        return value if isinstance(value, bool) else None

    def items(self, *names: str) -> list[tuple[str, Part]]:
        """The parts of a mapping with their names."""
        value = self.part(*names)._value
        return [(clean(str(name)), Part(one)) for name, one in value.items()] if isinstance(value, Mapping) else []

    def each(self, *names: str) -> list[Part]:
        """The parts of a list."""
        value = self.part(*names)._value
        return [Part(one) for one in value] if isinstance(value, list | tuple) else []

    @property
    def is_known(self) -> bool:
        """It stands in the document, and is not null."""
        return self._value is not None
