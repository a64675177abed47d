"""What a request's verify steps accept. In: the chances by position. Out: its steps, and which drafts.

A step gives one token plus the accepted drafts. Drawing each step of each request of a day would take hours, so a whole
request is drawn at once: the number of steps from the renewal theorem, then the accepted drafts by position so that
they add up, spread evenly over the steps. Counters follow the plan step by step and are whole at any moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple


class Plan(NamedTuple):
    """From step `first_step` of the engine on, `steps` verify steps accept `accepted[i]` drafts at position i.

    `*_before`: what the request had when the plan began. The request ends with the plan's last step, of which tokens
    past its length are dropped although their drafts count as accepted.
    """

    first_step: int
    steps: int
    accepted: tuple[int, ...]
    tokens_before: int
    accepted_before: tuple[int, ...]

    def after(self, step: int) -> tuple[int, list[int]]:
        """Tokens (not cut to the request's length) and accepted drafts, once its engine has completed `step` steps."""
        made = step - self.first_step
        if made >= self.steps:
            made, now = self.steps, self.accepted
        else:
            now = tuple([count * made // self.steps for count in self.accepted])
        accepted = [before + count for before, count in zip(self.accepted_before, now, strict=True)]
        return self.tokens_before + made + sum(now), accepted


def tokens_per_step(chances: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of the tokens of one step, 1 + accepted."""
    mean = square = 0.0
    reached = 1.0
    for position, chance in enumerate(chances):
        reached *= chance
        mean += reached
        square += (2 * position + 1) * reached
    return 1.0 + mean, square - mean * mean


def draw_plan(
    rng: Random,
    chances: Sequence[float],
    tokens: int,
    first_step: int,
    tokens_before: int = 1,
    accepted_before: tuple[int, ...] = (),
) -> Plan:
    """Plan the steps that give `tokens` more tokens (1 or more)."""
    depth = len(chances)
    if not depth:
        return Plan(first_step, tokens, (), tokens_before, ())
    mean, variance = tokens_per_step(chances)
    steps = round(rng.gauss(tokens / mean, math.sqrt(variance * tokens / mean**3)))
    steps = min(max(steps, -(-tokens // (1 + depth)), 1), tokens)
    accepted = tokens - steps
    if accepted:
        # the last step may accept more than the request has room for
        accepted = min(accepted + int(rng.random() * mean), depth * steps)
    by_position = _by_position(rng, chances, accepted, steps)
    return Plan(first_step, steps, by_position, tokens_before, accepted_before or (0,) * depth)


def _by_position(rng: Random, chances: Sequence[float], accepted: int, steps: int) -> tuple[int, ...]:
    """Share out accepted drafts: never more at a position than at the one before it, nor than steps at the first."""
    reached, shares = 1.0, []
    for chance in chances:
        reached *= chance
        shares.append(reached)
    whole = sum(shares)
    if whole <= 0:
        shares, whole = [1.0] * len(shares), float(len(shares))
    counts = []
    for share in shares[1:]:
        expected = accepted * share / whole
        counts.append(max(0, round(rng.gauss(expected, 0.5 * math.sqrt(expected)))))
    # from the deepest position up: each at least as many as the deeper one, at most the steps
    depth = len(shares)
    counts = [0, *counts]
    for position in range(1, depth):
        counts[position] = min(counts[position], steps, counts[position - 1] if position > 1 else steps)
    while True:
        counts[0] = accepted - sum(counts[1:])
        if counts[0] > steps:
            _move(counts, 1, steps)
        elif depth > 1 and counts[0] < counts[1]:
            _move(counts, -1, steps)
        else:
            return tuple(counts)


def _move(counts: list[int], by: int, steps: int) -> None:
    """Add one draft to the shallowest deeper position that has room, or take one from the deepest that has any."""
    positions = range(1, len(counts))
    if by > 0:
        for position in positions:
            if counts[position] < (steps if position == 1 else counts[position - 1]):
                counts[position] += 1
                return
        raise AssertionError("more drafts accepted than steps times positions")
    for position in reversed(positions):
        if counts[position] > 0:
            counts[position] -= 1
            return
