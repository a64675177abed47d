"""What a trial is. In: nothing. Out: value types.

A trial plays series and says, at some moments, exactly which alerts fire: a rule that fires beside the one that was
meant is a failure too. The dead man's switch fires throughout and is left out of the lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.export.rules.model import Alert


@dataclass(frozen=True, slots=True)
class Fired:
    """One alert that fires. `subjects`: labels that its expression gave; `told`: token -> text in its annotations."""

    alert: Alert
    subjects: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] | None = None

    @property
    def labels(self) -> dict[str, str]:
        """All labels of the alert but its name."""
        return {**self.alert.labels, **self.subjects}


@dataclass(frozen=True, slots=True)
class Check:
    """At this time exactly these alerts fire."""

    at_seconds: float
    fired: tuple[Fired, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """`series`: series -> its values in promtool's notation, `step_seconds` apart."""

    name: str
    series: Mapping[str, str]
    checks: tuple[Check, ...]
    step_seconds: float = 30.0
