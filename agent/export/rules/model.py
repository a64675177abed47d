"""What a file of rules consists of, before it is written in anybody's format. In: nothing. Out: value types.

One model, several writers: a Prometheus rule file, a PrometheusRule of Kubernetes, Grafana-managed alert rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule. `labels` are put on what it records."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """A value that fires beyond `fires` and stays until it is well on the other side, at `clears`.

    `value`: PromQL of one series. `above`: whether beyond means above.
    """

    value: str
    above: bool
    fires: Decimal
    clears: Decimal


@dataclass(frozen=True, slots=True)
class Asked:
    """Something that an annotation asks the server for when the alert is told: `%token%` in a text.

    `otherwise`: what stands there when the query has no answer.
    """

    token: str
    query: str
    form: Literal["seconds", "percent", "number", "text"]
    otherwise: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule. `expr` returns one series for each alert, with the labels that `labels` does not give.

    `hold_seconds`: how long `expr` must hold; `keep_seconds`: how long it must not, until the alert is resolved.
    `summary`, `description`, `cause` may hold `%label%` and `%value%`, `%value:seconds%`, `%value:percent%`.
    `level`: the same condition for a system that has a recovery threshold of its own; "" where `expr` says it all.
    `subjects`: the labels that come from `expr`, such as target and engine. `behind`: PromQL on `ALERTS` that has
    something for the subjects of which another alert tells already, and this one does not; for Prometheus alone.
    """

    name: str
    expr: str
    labels: Mapping[str, str]
    summary: str
    description: str
    runbook_url: str
    dashboard_url: str
    cause: str = ""
    hold_seconds: float = 0.0
    keep_seconds: float = 0.0
    comments: tuple[str, ...] = ()
    level: Level | None = None
    subjects: tuple[str, ...] = ()
    behind: str = ""
    asked: tuple[Asked, ...] = ()


Rule = Recording | Alert


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another at one time, so that a later one sees what an earlier one recorded.

    `interval_seconds` None: the server's own. `comments`: what the group cannot have, and why.
    """

    name: str
    rules: tuple[Rule, ...]
    interval_seconds: float | None = None
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """All rules that work on one kind of metrics; one Prometheus pages by one family."""

    name: str
    title: str
    groups: tuple[Group, ...]

    def alerts(self) -> Iterator[Alert]:
        """Every alerting rule, in order."""
        for group in self.groups:
            for rule in group.rules:
                if isinstance(rule, Alert):
                    yield rule

    def recordings(self) -> Iterator[Recording]:
        """Every recording rule, in order."""
        for group in self.groups:
            for rule in group.rules:
                if isinstance(rule, Recording):
                    yield rule
