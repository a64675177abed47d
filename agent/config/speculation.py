"""What is known of speculative decoding beforehand. In: nodes. Out: `Speculation`."""

from __future__ import annotations

from dataclasses import dataclass

from agent.config.fields import number, setting


@dataclass(frozen=True, slots=True)
class Speculation:
    """What drafting costs; without it pdwatch must have seen another depth to tell whether it pays."""

    cost_per_draft_token: float | None = setting(
        "cost_per_draft_token",
        number(0.0, 10.0),
        None,
        "Step time that one draft token adds, as a share of a step without drafts (0.1: a tenth); null: not known",
    )
