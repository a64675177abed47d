"""Speculation: draft counters come in, what speculative decoding is worth goes out.

A decode engine that fetched its KV pads the first step of each request with drafts that can only be rejected. They
are counted by vLLM and left out here: padded = drafts - steps (each step records one inter-token latency),
never more than the first tokens of the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agent.model import Role
from agent.reading.series import is_rank
from agent.state import Speculation
from agent.windows.increase import Increase


class Padding(NamedTuple):
    """Drafts that only padded a first step, and the tokens drafted in them."""

    drafts: float = 0.0
    tokens: float = 0.0


def padding(increase: Increase, role: Role) -> Padding:
    """The padding of one engine in its window; a padded draft is as deep as the engine drafts."""
    drafts = padded_drafts(increase, role)
    return Padding(drafts, drafts * _depth(increase)) if drafts else Padding()


def added(parts: Iterable[Padding]) -> Padding:
    """The padding of several engines, which may draft to different depths."""
    parts = list(parts)
    return Padding(sum(part.drafts for part in parts), sum(part.tokens for part in parts))


def padded_drafts(increase: Increase, role: Role) -> float:
    """Padding drafts of one engine in its window."""
    drafts = increase.count("spec_drafts") or 0.0
    steps, first_tokens = increase.histograms.get("itl"), increase.histograms.get("ttft")
    if role != "decode" or steps is None:
        return 0.0
    padded = max(0.0, drafts - steps.count)
    return min(padded, first_tokens.count) if first_tokens is not None else padded


def speculation(increase: Increase, padded: Padding) -> Speculation | None:
    """None when the page has no speculative counters. Without drafts in the window every rate is None.

    acceptance_rate: accepted / draft tokens; acceptance_length: tokens per verify step, 1 + accepted / drafts;
    per_position: share of steps that accepted position i; conditional: among those that reached it.
    """
    drafts = increase.count("spec_drafts")
    draft_tokens = increase.count("spec_draft_tokens")
    accepted = increase.count("spec_accepted_tokens")
    if drafts is None or draft_tokens is None or accepted is None:
        return None
    by_position = increase.labels("spec_accepted_by_position")
    positions = [by_position[label] for label in sorted(by_position, key=_position)]
    steps = drafts - padded.drafts
    tokens = draft_tokens - padded.tokens
    reached = [steps, *positions[:-1]]
    return Speculation(
        drafts=round(drafts),
        draft_tokens=round(draft_tokens),
        accepted_tokens=round(accepted),
        padded_drafts=round(padded.drafts),
        acceptance_rate=min(1.0, accepted / tokens) if tokens > 0 else None,
        acceptance_length=1 + accepted / steps if steps > 0 else None,
        per_position=tuple(_share(count, steps) for count in positions),
        conditional_per_position=tuple(_share(n, m) for n, m in zip(positions, reached, strict=False)),
    )


def _depth(increase: Increase) -> float:
    """Tokens of a full draft: one for each position; by the mean draft where positions are not told."""
    positions = increase.labels("spec_accepted_by_position")
    drafts = increase.count("spec_drafts")
    return (
        float(len(positions)) if positions else (increase.count("spec_draft_tokens") or 0.0) / drafts if drafts else 0.0
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _position(label: str) -> tuple[int, str]:
    return (int(label), label) if is_rank(label) else (1 << 30, label)
