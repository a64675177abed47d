"""One logical metric: what it is called on pages, and how its series are told apart. A value type without behaviour.

In: nothing. Out: `Name`, of which the tables of names are made: of vLLM's servers, of KV connectors, of routers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "info"]
Part = Literal["value", "bucket", "sum", "count"]

Choice = tuple[str, tuple[str, ...]]
"""A label's name and values of it."""

ALL_LABELS = ("*",)
"""For `raw_labels`: every label but the own one."""


@dataclass(frozen=True, slots=True)
class Name:
    """One logical metric. `aliases` are bare (without `vllm:`) when `vllm`, else whole names; first has precedence."""

    metric: str
    kind: Kind
    aliases: tuple[str, ...]
    own_label: str = ""
    per_engine: bool = True
    vllm: bool = True
    since: str = "0.9.2"
    loses: str = ""
    raw_labels: tuple[str, ...] = ()
    """Labels that only tell apart series of one meaning; their text becomes `SeriesKey.raw`."""
    only: tuple[Choice, ...] = ()
    """Of these labels, where a series has them, only these values are read."""
    never: tuple[Choice, ...] = ()
    """Series with one of these values are not read."""
    optional: bool = False
    """Only some deployments have it: its absence is no loss."""

    @property
    def key(self) -> str:
        """The name in `Layout.names`: two logical names exist both as counter and as histogram."""
        both = self.metric in ("prompt_tokens", "generation_tokens")
        return f"{self.metric}_histogram" if both and self.kind == "histogram" else self.metric

    def reads(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels is one of this metric's."""
        return all(label not in labels or labels[label] in values for label, values in self.only) and not any(
            labels.get(label) in values for label, values in self.never
        )
