"""What is kept of a leg or a request: each comes in, and samples (group, values) go out that slots add up.

A group is what a distribution is asked for: a pool, the system by prompt length, a pair of targets. Each kind of
group has its own list of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from agent.windows.joined_request import Parts, Request
from agent.windows.span_legs import Leg, e2e_seconds, tpot_seconds

Kind = Literal["pool", "request", "parts", "pair"]

VALUES: dict[Kind, tuple[str, ...]] = {
    "pool": ("ttft", "tpot", "queue", "prefill", "decode", "e2e"),
    "request": ("ttft", "tpot", "tokens"),
    "parts": (*Parts._fields, "prefill_leg", "e2e"),
    "pair": ("ttft", "handover", "kv_wait"),
}

BAND_EDGES = (16384, 32768, 65536, 131072, 262144)
"""Prompt lengths at which bands end, the end included; the last band has none."""


class Group(NamedTuple):
    """`name`: pool, or prefill target; `other`: decode target; `band`: of BAND_EDGES, None where not told.

    `inside`: the prompt lies in the contract's range; `met`: it had the promised TTFT and TPOT, None = not known.
    """

    kind: Kind
    name: str = ""
    other: str = ""
    band: int | None = None
    inside: bool = False
    met: bool | None = None


class Sample(NamedTuple):
    """One observation of a group at a moment; values in the order of VALUES, None = not known."""

    at: float
    group: Group
    values: tuple[float | None, ...]


class Promise(NamedTuple):
    """What a request must have to count as served as promised; None = nothing promised."""

    prompt_tokens: tuple[int, int] | None
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None

    def covers(self, prompt_tokens: int | None) -> bool:
        """Whether a prompt of this length is promised anything; one of unknown length is not."""
        if self.prompt_tokens is None:
            return True
        least, most = self.prompt_tokens
        return prompt_tokens is not None and least <= prompt_tokens <= most

    def met(self, request: Request) -> bool | None:
        """Whether this request had what is promised; None when nothing is, or its TPOT is not known."""
        if self.ttft_seconds is None and self.tpot_seconds is None:
            return None
        if self.ttft_seconds is not None and request.ttft_seconds > self.ttft_seconds:
            return False
        if self.tpot_seconds is None or request.completion_tokens == 1:
            return True  # one token has no time per token
        return None if request.tpot_seconds is None else request.tpot_seconds <= self.tpot_seconds


def band_of(prompt_tokens: int | None) -> int | None:
    """Index of the band that holds this length."""
    if prompt_tokens is None:
        return None
    return next((band for band, edge in enumerate(BAND_EDGES) if prompt_tokens <= edge), len(BAND_EDGES))


def leg_sample(leg: Leg, at: float, promise: Promise) -> Sample:
    """A sound leg as its own pool's histograms see it."""
    span = leg.span
    on_prefill = leg.role == "prefill"
    values = (
        span.ttft_seconds,
        None if on_prefill else tpot_seconds(span),
        span.queue_seconds,
        span.prefill_seconds,
        None if on_prefill else span.decode_seconds,
        e2e_seconds(span),
    )
    return Sample(at, Group("pool", leg.pool, inside=promise.covers(span.prompt_tokens)), values)


def request_samples(request: Request, promise: Promise, pair: tuple[str, str] | None) -> Iterator[Sample]:
    """A request by prompt length, its parts, and by where it was served. `pair` None: not kept by place."""
    at, parts, inside = request.at, request.parts, promise.covers(request.prompt_tokens)
    by_length = Group("request", band=band_of(request.prompt_tokens), inside=inside, met=promise.met(request))
    yield Sample(at, by_length, (request.ttft_seconds, request.tpot_seconds, request.completion_tokens))
    yield Sample(at, Group("parts", inside=inside), (*parts, _prefill_leg(request), request.e2e_seconds))
    if pair is not None:
        yield Sample(at, Group("pair", *pair), (request.ttft_seconds, parts.handover, parts.kv_wait))


def _prefill_leg(request: Request) -> float | None:
    """What of the TTFT passed before the decode leg began, without the hand-over: attempts and the leg used."""
    parts = request.parts
    if not request.prefill or parts.handover is None or request.decode_ttft_seconds is None:
        return None
    return request.ttft_seconds - request.decode_ttft_seconds - parts.handover
