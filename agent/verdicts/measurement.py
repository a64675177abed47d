"""What an objective's window says about its indicator, in plain numbers: the only thing that a verdict is made of.

In: nothing. Out: the value types between measuring and judging. Ranges hold whatever the distribution inside buckets
was; `math.inf` stands for "nothing bounds it from above".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Condition = Literal["ok", "no_data", "not_applicable", "metric_missing", "implausible"]
Noun = Literal["request", "step", "transfer"]


class Range(NamedTuple):
    """Where a statistic lies: `low`..`high` for certain, `likely_low`..`likely_high` with 95 %.

    `value` is the best single number; None: there is none.
    """

    value: float | None
    low: float
    high: float
    likely_low: float
    likely_high: float

    @classmethod
    def certain(cls, value: float | None, low: float, high: float) -> Range:
        """A range inside which nothing is more likely than the rest."""
        return cls(value, low, high, low, high)


UNKNOWN = Range.certain(None, 0.0, math.inf)


@dataclass(frozen=True, slots=True)
class Outside:
    """How many of the observations may belong to requests that the contract does not speak of.

    `low`..`high` are counts among the measurement's `count`. `known` False: the prompt lengths are not on the pages,
    so that all requests are taken for promised ones.
    """

    low: float = 0.0
    high: float = 0.0
    known: bool = True


@dataclass(frozen=True, slots=True)
class Measurement:
    """An indicator over a window.

    `count` observations (`noun`) were seen, `needed` are needed; `range` is where the statistic of the promised
    requests lies, `range.value` what all requests show. `active`: something happened, even where `count` is 0.
    `live`: what to judge when too few requests finished. `note`: what the reader of the verdict should know. `partial`:
    a target just fell silent, so that "good" may be good only because the bad one is no longer seen.
    """

    condition: Condition
    judged_on: str = "none"
    count: float = 0.0
    needed: float = 0.0
    noun: Noun = "request"
    range: Range = UNKNOWN
    outside: Outside = Outside()
    active: bool = False
    live: Measurement | None = None
    note: str = ""
    partial: bool = False
