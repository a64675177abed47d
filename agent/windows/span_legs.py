"""One request's leg in one pool: a span comes in, its latencies and what is wrong with it go out.

A request that failed inside the engine still gives a span, with times that no request had: a negative queue time, or
the host's uptime as prefill time. Such a leg is recognised here, so that nothing of it reaches a mean.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from agent.model import Span

LegRole = Literal["prefill", "decode", "both"]
Fault = Literal["no_tokens", "negative_time", "longer_than_the_request"]

SLACK_SECONDS = 1.0
SLACK_RATIO = 0.01
"""Engine times run on a monotonic clock and end-to-end times on a wall clock: so much may lie between the two."""

ID_PREFIXES = ("chatcmpl-", "cmpl-")


class Leg(NamedTuple):
    """`target`: the target's name, or its pool's where only that is known. `fault`: None for a sound leg."""

    role: LegRole
    pool: str
    target: str
    span: Span
    fault: Fault | None


def leg_of(span: Span, role: LegRole, pool: str, target: str) -> Leg:
    """The leg of a span that came from `target`."""
    return Leg(role, pool, target, span, fault_of(span))


def request_core(request_id: str) -> str:
    """The request id without the prefix that vLLM's endpoints put before it: the same on both legs of a request."""
    for prefix in ID_PREFIXES:
        if request_id.startswith(prefix):
            return request_id[len(prefix) :]
    return request_id


def fault_of(span: Span) -> Fault | None:
    """What shows that the engine gave this request up, or that its clock was set meanwhile; None for a sound span."""
    if span.completion_tokens == 0:
        return "no_tokens"
    times = (span.ttft_seconds, span.e2e_seconds, span.queue_seconds, span.prefill_seconds, span.decode_seconds)
    if span.end < span.start or any(time is not None and time < 0.0 for time in times):
        return "negative_time"
    whole = e2e_seconds(span)
    inside = sum(time or 0.0 for time in (span.queue_seconds, span.prefill_seconds, span.decode_seconds))
    if max(inside, span.ttft_seconds or 0.0) > whole * (1.0 + SLACK_RATIO) + SLACK_SECONDS:
        return "longer_than_the_request"
    return None


def e2e_seconds(span: Span) -> float:
    """Arrival to the last output as the server measured it; by the span's own ends where it does not say."""
    return span.e2e_seconds if span.e2e_seconds is not None else span.end - span.start


def tpot_seconds(span: Span) -> float | None:
    """Decode time per output token after the first; None for a leg of one token."""
    if span.decode_seconds is None or span.completion_tokens is None or span.completion_tokens < 2:
        return None
    return span.decode_seconds / (span.completion_tokens - 1)
