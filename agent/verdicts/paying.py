"""Does drafting pay? What a pool gained now, its last three days and perhaps a known cost come in, a problem goes out.

A token costs step time / tokens per step. Drafting k tokens makes a step longer, s(k) instead of s(0), and gives a(k)
tokens for it, the acceptance length, instead of one:

    s(k) / a(k) < s(0) / 1      drafting pays against none:  acceptance length > step-time ratio
    s(k) / a(k) < s(j) / a(j)   depth k pays against depth j: a(k) / a(j)      > s(k) / s(j)

A pool shows s and a of the depth that it runs and no other's, so from one depth alone nothing can be told. It can

- where its own history has another depth, or none, at a like batch (requests running per engine and prompt lengths,
  which step time depends on): both costs per token are measured, s as the mean of ITL, a as tokens per step;
- where it is configured what one draft token adds to a step, c as a share of a step without drafts: then s(k) / s(0) =
  1 + c k, and drafting k tokens does not pay while the acceptance length is below that.

Else nothing is said. Slots of the history in which the depth changed are of neither depth and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.state import Speculation
from agent.verdicts.causes import TpotParts, tpot_parts
from agent.verdicts.wording import milliseconds, percent
from agent.windows.history import PoolHistory
from agent.windows.increase import Increase, merged

LEAST_DRAFTS = 1000
LEAST_STEPS = 5000
LOOK_BACK_SECONDS = 3 * 86400.0
WHOLE_DEPTH_WITHIN = 0.1
LIKE_BATCH_FACTOR = 1.2
LIKE_PROMPT_FACTOR = 1.25
DEARER_FACTOR = 1.1
"""A like batch is not the same batch: a smaller difference in cost per token may be that."""


def not_paying(
    pool: PoolFacts, history: PoolHistory, since: float, now: float, cost_per_draft_token: float | None = None
) -> list[Problem]:
    """`cost_per_draft_token`: step time that one draft token adds, as a share of a step without drafts, if known."""
    if pool.role == "prefill":
        return []
    found = pool.speculation
    if found is None or found.drafts - found.padded_drafts < LEAST_DRAFTS or found.accepted_tokens == 0:
        return []  # with nothing accepted it is ineffective, and said to be
    problem = _by_cost(pool, found, since, cost_per_draft_token) or _by_history(pool, found, history, since, now)
    return [problem] if problem is not None else []


def _by_cost(pool: PoolFacts, found: Speculation, since: float, cost: float | None) -> Problem | None:
    length = found.acceptance_length
    if cost is None or length is None:
        return None
    drafted = found.draft_tokens / found.drafts
    ratio = 1.0 + cost * drafted
    if length >= ratio:
        return None
    text = (
        f"drafting does not pay in pool {pool.name}: {drafted:.1f} tokens drafted a step make it x{ratio:.2f} as long, "
        f"by the configured cost of {percent(cost)} each, and bring {length:.2f} tokens instead of 1"
    )
    evidence = {"acceptance_length": length, "step_time_ratio": ratio, "draft_tokens_per_step": drafted}
    return Problem("speculation_not_paying", "", since, text, pool=pool.name, evidence=evidence)


def _by_history(pool: PoolFacts, found: Speculation, history: PoolHistory, since: float, now: float) -> Problem | None:
    depth, parts = _whole(found.draft_tokens / found.drafts), tpot_parts(pool.total, pool.role)
    if depth is None or parts is None:
        return None
    cheapest: tuple[int, TpotParts] | None = None
    for other, gain in _other_depths(pool, history, depth, parts, now):
        then = tpot_parts(gain, pool.role)
        if then is None or then.steps < LEAST_STEPS or (other == 0 and then.tokens_per_step > 1.05):
            continue  # more than one token a step without a draft: drafts that the pages do not tell of
        if cheapest is None or then.tpot_seconds < cheapest[1].tpot_seconds:
            cheapest = other, then
    if cheapest is None or parts.tpot_seconds <= DEARER_FACTOR * cheapest[1].tpot_seconds:
        return None
    other, then = cheapest
    gained, longer = parts.tokens_per_step / then.tokens_per_step, parts.step_seconds / then.step_seconds
    before = f"{other} drafted" if other else "no drafting"
    text = (
        f"drafting {depth} tokens a step does not pay in pool {pool.name} against {before}, seen at a like batch: "
        f"tokens per step {then.tokens_per_step:.2f} -> {parts.tokens_per_step:.2f} (x{gained:.2f}), steps "
        f"{milliseconds(then.step_seconds)} -> {milliseconds(parts.step_seconds)} (x{longer:.2f}), so a token takes "
        f"{milliseconds(parts.tpot_seconds)} instead of {milliseconds(then.tpot_seconds)}"
    )
    evidence = {
        "depth": float(depth),
        "other_depth": float(other),
        "tokens_per_step_ratio": gained,
        "step_time_ratio": longer,
        "tpot_seconds": parts.tpot_seconds,
        "other_tpot_seconds": then.tpot_seconds,
        "running": parts.running,
        "other_running": then.running,
    }
    return Problem("speculation_not_paying", "", since, text, pool=pool.name, evidence=evidence)


def _other_depths(
    pool: PoolFacts, history: PoolHistory, depth: int, parts: TpotParts, now: float
) -> Iterator[tuple[int, Increase]]:
    """Depth -> all that the pool gained with it at a like batch, by the ten-minute slots of the last three days."""
    like: dict[int, list[Increase]] = {}
    for slot in history.coarse.since(now - LOOK_BACK_SECONDS, now):
        other = depth_of(slot.increase)
        if other is None or other == depth:
            continue
        then = tpot_parts(slot.increase, pool.role)
        if then is not None and _alike(parts, then):
            like.setdefault(other, []).append(slot.increase)
    for other, gains in like.items():
        yield other, merged(gains)


def depth_of(gain: Increase) -> int | None:
    """Tokens drafted per step where all steps drafted as many; 0 without drafts; None for a mixture or no steps."""
    itl = gain.histograms.get("itl")
    if itl is None or itl.count <= 0:
        return None
    drafts, tokens = gain.count("spec_drafts") or 0.0, gain.count("spec_draft_tokens") or 0.0
    return _whole(tokens / drafts) if drafts else 0


def _whole(drafted: float) -> int | None:
    return round(drafted) if abs(drafted - round(drafted)) <= WHOLE_DEPTH_WITHIN else None


def _alike(one: TpotParts, other: TpotParts) -> bool:
    """Like batches of like contexts; a load that is not known is not known to be alike."""
    if one.running is None or other.running is None or not _within(one.running, other.running, LIKE_BATCH_FACTOR):
        return False
    if one.prompt_tokens is None or other.prompt_tokens is None:
        return one.prompt_tokens is other.prompt_tokens
    return _within(one.prompt_tokens, other.prompt_tokens, LIKE_PROMPT_FACTOR)


def _within(one: float, other: float, factor: float) -> bool:
    return one <= factor * other and other <= factor * one
