"""Legs built by hand: what the tests of joining, of exact indicators and of the receiver feed."""

from __future__ import annotations

from agent.model import Span, SpansObservation

START = 1_795_970_000.0
TRACE = "0af7651916cd43dd8448eb211c80319c"


def prefill_span(
    request: str = "cmpl-a-0", start: float = START, e2e: float = 1.0, trace: str = TRACE, prompt_tokens: int = 20_000
) -> Span:
    """A prefill leg: a tenth of it queueing, half of it computing."""
    return Span(
        trace=trace,
        request=request,
        start=start,
        end=start + e2e,
        prompt_tokens=prompt_tokens,
        completion_tokens=1,
        ttft_seconds=e2e,
        e2e_seconds=e2e,
        queue_seconds=0.1 * e2e,
        prefill_seconds=0.5 * e2e,
        decode_seconds=0.0,
    )


def decode_span(
    request: str = "cmpl-a-0",
    start: float = START + 1.25,
    ttft: float = 0.5,
    tokens: int = 101,
    tpot: float = 0.02,
    trace: str = TRACE,
    prompt_tokens: int = 20_000,
) -> Span:
    """A decode leg: half of its TTFT waiting for KV, a quarter in its first step."""
    decode = tpot * (tokens - 1)
    return Span(
        trace=trace,
        request=request,
        start=start,
        end=start + ttft + decode,
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        ttft_seconds=ttft,
        e2e_seconds=ttft + decode,
        queue_seconds=0.5 * ttft,
        prefill_seconds=0.25 * ttft,
        decode_seconds=decode,
    )


def arrived(target: str, *spans: Span) -> SpansObservation:
    """Spans that arrive a second after the last of them ended."""
    return SpansObservation(max(span.end for span in spans) + 1.0, target, spans)
