"""One whole request out of its legs: what the user waited for, split into parts. In: legs. Out: `Request`.

    TTFT = (start of decode leg + its TTFT) - start of the first leg

which with serial dispatch is the prefill leg's end-to-end time + the hand-over gap + the decode leg's TTFT. The parts
add up to it: retries, queue, prefill, hand-over, wait for KV, first step, and the rest (tokenizing, messages between
processes, event loops). The gap alone compares two hosts' clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from agent.windows.span_legs import Leg, e2e_seconds, tpot_seconds

Dispatch = Literal["serial", "concurrent"]


class Parts(NamedTuple):
    """Seconds each; None where the server did not say.

    `retries`: from the first attempt at prefill to the one that was used. `queue`, `prefill`: the prefill leg's.
    `handover`: its end to the decode leg's arrival, failed attempts at decode included. `kv_wait`: the decode leg's
    queue, in which KV is fetched. `first_step`: the decode leg's own prefill.
    """

    retries: float | None
    queue: float | None
    prefill: float | None
    handover: float | None
    kv_wait: float | None
    first_step: float | None
    rest: float | None


class Request(NamedTuple):
    """One request that has had its tokens. `at`: when it ended, on pdwatch's clock; `prefill` "" without such a leg."""

    at: float
    trace: str
    request: str
    prefill: str
    decode: str
    prompt_tokens: int | None
    completion_tokens: int | None
    ttft_seconds: float
    decode_ttft_seconds: float
    """The decode leg's own; equal to `ttft_seconds` without a prefill leg."""
    tpot_seconds: float | None
    e2e_seconds: float
    parts: Parts
    attempts: int
    skewed: bool
    """The hand-over came out negative: the two hosts' clocks differ, and the gap (counted as 0) is not known."""


def joined_request(attempts: Sequence[Leg], decode: Leg, dispatch: Dispatch, at: float) -> Request | None:
    """`attempts`: prefill legs in order of their starts, the last sound one being the one that was used.

    None when the decode leg does not say its TTFT, or no attempt is sound.
    """
    last = decode.span
    used = next((leg for leg in reversed(attempts) if leg.fault is None), None)
    if last.ttft_seconds is None or used is None:
        return None
    first, fed = attempts[0].span, used.span
    gap = last.start - (fed.start + e2e_seconds(fed))
    skewed = dispatch == "serial" and gap < 0.0
    overlap = 0.0
    if dispatch == "concurrent":
        # The decode leg waits while prefill runs: that stretch is prefill's, not a wait for KV.
        overlap = min(max(0.0, -gap), last.queue_seconds or 0.0)
        begin = min(first.start, last.start)
        ttft = last.start + last.ttft_seconds - begin
        retries = fed.start - begin
    else:
        retries = fed.start - first.start
        ttft = retries + e2e_seconds(fed) + max(0.0, gap) + last.ttft_seconds
    kv_wait = None if last.queue_seconds is None else last.queue_seconds - overlap
    known = (retries, fed.queue_seconds, fed.prefill_seconds, max(0.0, gap), kv_wait, last.prefill_seconds)
    return Request(
        at=at,
        trace=last.trace,
        request=last.request,
        prefill=used.target,
        decode=decode.target,
        prompt_tokens=last.prompt_tokens,
        completion_tokens=last.completion_tokens,
        ttft_seconds=ttft,
        decode_ttft_seconds=last.ttft_seconds,
        tpot_seconds=tpot_seconds(last),
        e2e_seconds=ttft - last.ttft_seconds + e2e_seconds(last),
        parts=Parts(*known, rest=_rest(ttft, known)),
        attempts=len(attempts),
        skewed=skewed,
    )


def request_of_one_leg(leg: Leg, at: float) -> Request | None:
    """A request that was served in one place (pools of role `both`); None when its TTFT is not told."""
    span = leg.span
    if span.ttft_seconds is None:
        return None
    known = (0.0, span.queue_seconds, span.prefill_seconds, 0.0, 0.0, 0.0)
    return Request(
        at=at,
        trace=span.trace,
        request=span.request,
        prefill="",
        decode=leg.target,
        prompt_tokens=span.prompt_tokens,
        completion_tokens=span.completion_tokens,
        ttft_seconds=span.ttft_seconds,
        decode_ttft_seconds=span.ttft_seconds,
        tpot_seconds=tpot_seconds(span),
        e2e_seconds=e2e_seconds(span),
        parts=Parts(*known, rest=_rest(span.ttft_seconds, known)),
        attempts=1,
        skewed=False,
    )


def _rest(ttft: float, known: Sequence[float | None]) -> float | None:
    if any(part is None for part in known):
        return None
    return ttft - sum(part or 0.0 for part in known)
