"""Does speculative decoding still work? A pool's drafts now and in its last hours come in, problems go out.

Only windows with enough drafts are judged. Whether drafting pays is another question (`paying.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.indicators.pools import PoolFacts
from agent.indicators.speculation import padding, speculation
from agent.model import Problem
from agent.state import Speculation
from agent.verdicts.wording import duration, percent
from agent.windows.history import PoolHistory

LEAST_DRAFTS = 500
BASELINE_SECONDS = 3600.0
BASELINE_AWAY_SECONDS = 900.0
COLLAPSED_TO = 0.5
WORTH_HAVING_LENGTH = 1.1
CODES = ("speculation_ineffective", "speculation_collapsed")
DEAD_POSITION_SHARE = 0.01
ALIVE_POSITION_SHARE = 0.2


def drafting_problems(pool: PoolFacts, history: PoolHistory, since: float, now: float) -> list[Problem]:
    """`since`: where the window of `pool` begins."""
    found = pool.speculation
    if found is None or found.drafts - found.padded_drafts < LEAST_DRAFTS:
        return []
    return list(_judged(pool, found, _before(pool, history, now), since, now))


def untold(pools: Iterable[PoolFacts]) -> frozenset[tuple[str, str]]:
    """(code, pool) of what cannot be told, since the pool drafts but did so too seldom in the window.

    No drafts are no acceptance, neither a bad nor a good one.
    """
    quiet = [
        pool.name
        for pool in pools
        if (found := pool.speculation) is not None and found.drafts - found.padded_drafts < LEAST_DRAFTS
    ]
    return frozenset((code, name) for name in quiet for code in CODES)


def _judged(
    pool: PoolFacts, found: Speculation, before: Speculation | None, since: float, now: float
) -> Iterable[Problem]:
    length, steps = found.acceptance_length, found.drafts - found.padded_drafts
    if length is None:
        return
    evidence = {"acceptance_length": length, "drafts": float(steps), "acceptance_rate": found.acceptance_rate}
    if found.accepted_tokens == 0:
        text = (
            f"pool {pool.name} drafted {steps} times in {duration(now - since)} and not one token was accepted: "
            "speculation is pure overhead now"
        )
        yield Problem("speculation_ineffective", "", since, text, pool=pool.name, evidence=evidence)
        return
    if before is not None and before.acceptance_length is not None:
        gained, gained_before = length - 1, before.acceptance_length - 1
        if before.acceptance_length >= WORTH_HAVING_LENGTH and gained < COLLAPSED_TO * gained_before:
            text = (
                f"acceptance length of pool {pool.name} fell from {before.acceptance_length:.2f} "
                f"to {length:.2f} tokens per step within its own last hour"
            )
            evidence = {**evidence, "acceptance_length_before": before.acceptance_length}
            yield Problem("speculation_collapsed", "", since, text, pool=pool.name, evidence=evidence)
    for position, share in enumerate(found.conditional_per_position[1:], start=1):
        first = found.per_position[0] or 0.0
        if share is not None and share < DEAD_POSITION_SHARE and first >= ALIVE_POSITION_SHARE:
            text = (
                f"draft position {position} of pool {pool.name} is accepted {percent(share)} of the times it is "
                f"reached (position 0: {percent(first)}): drafting deeper than {position} buys nothing"
            )
            yield Problem(
                "speculation_ineffective",
                "",
                since,
                text,
                "info",
                pool=pool.name,
                evidence={**evidence, "position": position},
            )
            break


def _before(pool: PoolFacts, history: PoolHistory, now: float) -> Speculation | None:
    """The pool's own hour before the last minutes; None with too few drafts in it."""
    until = now - BASELINE_AWAY_SECONDS
    total = history.between(until - BASELINE_SECONDS, until)
    found = speculation(total, padding(total, pool.role))
    return found if found is not None and found.drafts - found.padded_drafts >= LEAST_DRAFTS else None
