"""Why an objective broke: the same pool before and now comes in, one cause with its numbers goes out.

TPOT over all tokens is step time / tokens per step, without a rest: its rise is split exactly (in logarithms) into
what acceptance lost and what the steps took longer; where the request mean rose and the token mean did not, the mix of
requests changed. TTFT is split into the parts that add up to it, and the part that grew most is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.indicators.latency import tpot_token_mean
from agent.model import Problem, Role
from agent.verdicts.steps import begun, grew, prompt_tokens
from agent.verdicts.wording import milliseconds, percent
from agent.windows.history import PoolHistory
from agent.windows.increase import Increase, merged

BASELINE_SECONDS = 3 * 3600.0
BASELINE_MINUTES = 60
LEAST_BASELINE_MINUTES = 5
MATTERS_FACTOR = 1.05
LOAD_FACTOR = 1.25


@dataclass(frozen=True, slots=True)
class Cause:
    """`code` for machines, `text` for the person, `evidence` the numbers in it (seconds, shares, counts)."""

    code: str
    text: str
    evidence: dict[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TpotParts:
    """Token-mean TPOT and what it is made of; `running` and `kv_usage` per engine."""

    tpot_seconds: float
    step_seconds: float
    tokens_per_step: float
    running: float | None
    kv_usage: float | None
    preemptions: float
    steps: float
    begun_per_second: float | None
    prompt_tokens: float | None


def tpot_parts(gain: Increase, role: Role) -> TpotParts | None:
    """None where steps or tokens are not known or none were seen."""
    tpot, itl = tpot_token_mean(gain, role), gain.histograms.get("itl")
    if tpot is None or itl is None or not itl.mean or tpot <= 0:
        return None
    return TpotParts(
        tpot_seconds=tpot,
        step_seconds=itl.mean,
        tokens_per_step=itl.mean / tpot,
        running=gain.gauge_mean("running"),
        kv_usage=gain.gauge_mean("kv_usage"),
        preemptions=gain.count("preemptions") or 0.0,
        steps=itl.count,
        begun_per_second=_per_second(gain),
        prompt_tokens=prompt_tokens(gain),
    )


def _per_second(gain: Increase) -> float | None:
    """Requests begun per second and engine; the time is that for which the engines' gauges were known."""
    watched = gain.gauges.get(("running", ""))
    return begun(gain) / watched.seconds if watched is not None and watched.seconds > 0 else None


def tpot_cause(
    role: Role,
    now_gain: Increase,
    history: PoolHistory,
    onset: float,
    target_seconds: float,
    problems: Sequence[Problem] = (),
) -> Cause | None:
    """`now_gain`: the breached window; `onset`: when the objective was first seen broken; None: it cannot be told."""
    now = tpot_parts(now_gain, role)
    if now is None:
        return None
    before = _good_before(role, history, onset, target_seconds)
    if before is None:
        return Cause(
            "no_baseline",
            f"TPOT {milliseconds(now.tpot_seconds)} = step {milliseconds(now.step_seconds)} / "
            f"{now.tokens_per_step:.2f} tokens per step; there is no time within target to compare with",
            {"step_seconds": now.step_seconds, "tokens_per_step": now.tokens_per_step},
        )
    rise = math.log(now.tpot_seconds / before.tpot_seconds)
    from_steps = math.log(now.step_seconds / before.step_seconds)
    from_acceptance = math.log(before.tokens_per_step / now.tokens_per_step)
    evidence = _tpot_evidence(before, now)
    head = f"TPOT {milliseconds(before.tpot_seconds)} -> {milliseconds(now.tpot_seconds)}"
    if rise < math.log(MATTERS_FACTOR):
        text = (
            f"over all tokens TPOT is as before ({milliseconds(before.tpot_seconds)} -> "
            f"{milliseconds(now.tpot_seconds)}): the mix of requests changed, short answers weigh more in the mean"
        )
        return Cause("request_mix", text, evidence)
    of_acceptance, of_steps = max(0.0, from_acceptance / rise), max(0.0, from_steps / rise)
    shares = f"{percent(of_acceptance)} from acceptance, {percent(of_steps)} from steps"
    if from_acceptance > from_steps:
        text = (
            f"{head}: tokens per step fell from {before.tokens_per_step:.2f} to {now.tokens_per_step:.2f}, "
            f"steps {milliseconds(before.step_seconds)} -> {milliseconds(now.step_seconds)} ({shares})"
        )
        return Cause("acceptance_drop", text, evidence)
    return _step_cause(head, shares, before, now, evidence, problems)


def _step_cause(
    head: str,
    shares: str,
    before: TpotParts,
    now: TpotParts,
    evidence: dict[str, float | str | None],
    problems: Sequence[Problem],
) -> Cause:
    steps = f"steps {milliseconds(before.step_seconds)} -> {milliseconds(now.step_seconds)} ({shares})"
    slow = [problem for problem in problems if problem.code == "rank_slow"]
    if slow:
        return Cause("rank_slow", f"{head}: {steps}; {slow[0].text}", {**evidence, "engine": slow[0].engine})
    preempting = now.preemptions / now.steps > 2 * (before.preemptions / before.steps) + 1e-4
    if preempting:
        text = f"{head}: {steps}; {now.preemptions:.0f} preemptions: the KV cache is too small for what runs"
        return Cause("preemptions", text, evidence)
    if now.running is not None and before.running is not None:
        load = f"{before.running:.0f} -> {now.running:.0f} running per engine"
        if grew(before.begun_per_second, now.begun_per_second):
            return Cause("batch_growth", f"{head}: {steps}; more requests arrive, {load}", evidence)
        if grew(before.prompt_tokens, now.prompt_tokens):
            lengths = f"prompts of {before.prompt_tokens:.0f} -> {now.prompt_tokens:.0f} tokens, {load}"
            return Cause("longer_contexts", f"{head}: {steps}; contexts grew, {lengths}", evidence)
        text = (
            f"{head}: {steps} with no more and no longer requests ({load}): batches may have left the CUDA-graph path"
        )
        return Cause("graph_fallback", text, evidence)
    return Cause("step_time", f"{head}: {steps}", evidence)


def _tpot_evidence(before: TpotParts, now: TpotParts) -> dict[str, float | str | None]:
    return {
        "tpot_seconds_before": before.tpot_seconds,
        "tpot_seconds": now.tpot_seconds,
        "step_seconds_before": before.step_seconds,
        "step_seconds": now.step_seconds,
        "tokens_per_step_before": before.tokens_per_step,
        "tokens_per_step": now.tokens_per_step,
        "running_before": before.running,
        "running": now.running,
        "kv_usage_before": before.kv_usage,
        "kv_usage": now.kv_usage,
        "preemptions": now.preemptions,
    }


def _good_before(role: Role, history: PoolHistory, onset: float, target_seconds: float) -> TpotParts | None:
    """The last hour of minutes within target before the onset."""
    good: list[Increase] = []
    for _, gain in reversed(history.minutes(onset - BASELINE_SECONDS, onset)):
        tpot = tpot_token_mean(gain, role)
        if tpot is not None and tpot <= target_seconds:
            good.append(gain)
        if len(good) >= BASELINE_MINUTES:
            break
    return tpot_parts(merged(good), role) if len(good) >= LEAST_BASELINE_MINUTES else None


@dataclass(frozen=True, slots=True)
class TtftPart:
    """One of the waits that add up to the time to first token; `words` say what it is."""

    code: str
    words: str
    seconds: float


def ttft_parts(prefill: Increase | None, decode: Increase | None) -> list[TtftPart]:
    """Mean seconds of each part, in the order a request meets them; parts that are not known are left out.

    On decode the queue time holds the wait for a place, the handshake and the KV transfer; the transfer is shown apart
    as far as its handles tell.
    """
    parts: list[TtftPart] = []

    def part(gain: Increase | None, metric: str, code: str, words: str) -> float | None:
        histogram = gain.histograms.get(metric) if gain is not None else None
        mean = histogram.mean if histogram is not None else None
        if mean is not None:
            parts.append(TtftPart(code, words, mean))
        return mean

    part(prefill, "queue", "prefill_queue", "waiting for a prefill engine")
    part(prefill, "prefill", "prefill_compute", "computing the prompt")
    wait = decode.histograms["queue"].mean if decode is not None and "queue" in decode.histograms else None
    moved = decode.histograms.get("kv_transfer_time") if decode is not None else None
    transfer = moved.mean if moved is not None else None
    if wait is not None:
        apart = min(transfer or 0.0, wait)
        if transfer is not None:
            parts.append(TtftPart("kv_transfer", "transferring KV", apart))
        parts.append(TtftPart("decode_wait", "waiting on decode for a place or for KV", wait - apart))
    part(decode, "prefill", "first_step", "the first decode step")
    return parts


def ttft_cause(
    prefill: Increase | None,
    decode: Increase | None,
    histories: tuple[PoolHistory | None, PoolHistory | None],
    onset: float,
) -> Cause | None:
    """The part that grew most against the hour before the onset; the largest part where there is no such hour."""
    now = ttft_parts(prefill, decode)
    if not now:
        return None
    earlier = tuple(
        merged(gain for _, gain in history.minutes(onset - 3600.0, onset - 300.0)) if history is not None else None
        for history in histories
    )
    before = {part.code: part.seconds for part in ttft_parts(*earlier)}
    evidence: dict[str, float | str | None] = {f"{part.code}_seconds": part.seconds for part in now}
    evidence |= {f"{code}_seconds_before": seconds for code, seconds in before.items()}
    listed = ", ".join(f"{part.words} {milliseconds(part.seconds)}" for part in now)
    if not before:
        most = max(now, key=lambda part: part.seconds)
        return Cause(most.code, f"most of TTFT is {most.words}: {listed}", evidence)
    most = max(now, key=lambda part: part.seconds - before.get(part.code, 0.0))
    rise = f"{most.words} rose from {milliseconds(before.get(most.code, 0.0))} to {milliseconds(most.seconds)}"
    why = _why_part(most.code, prefill, earlier[0])
    return Cause(most.code, f"{rise}{why}; now {listed}", evidence)


def _why_part(code: str, prefill: Increase | None, before: Increase | None) -> str:
    if code != "prefill_compute" or prefill is None or before is None:
        return ""
    now_tokens, old_tokens = prefill.histograms.get("prompt_tokens"), before.histograms.get("prompt_tokens")
    if now_tokens is None or old_tokens is None or now_tokens.mean is None or not old_tokens.mean:
        return ""
    if now_tokens.mean > LOAD_FACTOR * old_tokens.mean:
        return f" with prompts of {old_tokens.mean:.0f} -> {now_tokens.mean:.0f} tokens"
    return " at the same prompt length"
