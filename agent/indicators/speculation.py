"""Speculation: draft counters come in, what speculative decoding is worth goes out.

A decode engine that fetched its KV pads the first step of each request with drafts that can only be rejected. They
are counted by vLLM and left out here: padded = drafts - steps (each step records one inter-token latency),
never more than the first tokens of the window.
"""

from __future__ import annotations

from agent.model import Role
from agent.state import Speculation
from agent.windows.increase import Increase


def padded_drafts(increase: Increase, role: Role) -> float:
    """Padding drafts of one engine in its window."""
    drafts = increase.count("spec_drafts") or 0.0
    steps, first_tokens = increase.histograms.get("itl"), increase.histograms.get("ttft")
    if role != "decode" or steps is None:
        return 0.0
    padded = max(0.0, drafts - steps.count)
    return min(padded, first_tokens.count) if first_tokens is not None else padded


def speculation(increase: Increase, padded: float) -> Speculation | None:
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
    depth = len(positions) if positions else (draft_tokens / drafts if drafts else 0.0)
    steps = drafts - padded
    tokens = draft_tokens - depth * padded
    reached = [steps, *positions[:-1]]
    return Speculation(
        drafts=round(drafts),
        draft_tokens=round(draft_tokens),
        accepted_tokens=round(accepted),
        padded_drafts=round(padded),
        acceptance_rate=min(1.0, accepted / tokens) if tokens > 0 else None,
        acceptance_length=1 + accepted / steps if steps > 0 else None,
        per_position=tuple(_share(count, steps) for count in positions),
        conditional_per_position=tuple(_share(n, m) for n, m in zip(positions, reached, strict=False)),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _position(label: str) -> tuple[int, str]:
    return (int(label), label) if label.isdigit() else (1 << 30, label)
