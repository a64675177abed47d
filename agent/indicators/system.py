"""The system: the pools' facts come in, what the user gets as a whole goes out.

With serial dispatch a user waits for the prefill leg from arrival to its end, then for the decode leg's first token;
means of the two add up, percentiles do not: they are bounded. With concurrent dispatch decode's own TTFT is the user's.
A router in front measures it at the first hop, spans give it per request: both are preferred to the composition, in
this order, and the state says which it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from agent.indicators.distribution import NO_QUANTILES, distribution, untold
from agent.indicators.outcomes import finished, rate
from agent.indicators.pools import PoolFacts
from agent.indicators.routers import fresh_total, router_state, router_ttft
from agent.indicators.routers import requests as router_requests
from agent.indicators.sums import quantiles_of_sum
from agent.state import Legs, ShareBounds, SystemState, SystemTtft, TtftParts
from agent.windows.increase import HistogramIncrease, Increase, merged

Dispatch = Literal["serial", "concurrent"]

LEAST_SEEN_SHARE = 0.5
"""A router that measured fewer of the requests than this is not what most users came through."""


def system_state(
    pools: Sequence[PoolFacts],
    dispatch: Dispatch,
    prompt_tokens: tuple[float, float] | None,
    *,
    router: PoolFacts | None = None,
    router_kind: str | None = None,
    traced: SystemTtft | None = None,
) -> SystemState:
    """`prompt_tokens`: the prompt lengths that the objectives promise for, both ends included.

    `router`: the targets of the router in front, as of a pool; `traced`: the TTFT of the same window from spans.
    """
    prefill = merged(pool.total for pool in pools if pool.role == "prefill")
    decode = merged(pool.total for pool in pools if pool.role == "decode")
    both = merged(pool.total for pool in pools if pool.role == "both")
    split = _is_split(pools)
    arrivals = decode if split else both
    composed = _ttft(prefill, decode, dispatch) if split else _own_ttft(both)
    measured = router_ttft(router) if router is not None else None
    return SystemState(
        ttft=preferred(measured, traced, composed),
        requests_per_s=_added([_requests_per_second(pool) for pool in pools if pool.role in ("decode", "both")]),
        total_tokens_per_s_per_gpu=_tokens_per_gpu(pools),
        contract_share=contract_share(arrivals.histograms.get("prompt_tokens"), prompt_tokens),
        legs=legs(pools, router),
        router=router_state(router, router_kind) if router is not None else None,
    )


def legs(pools: Sequence[PoolFacts], router: PoolFacts | None = None) -> Legs | None:
    """Prefill legs that ended beside decode legs that began; None where pools are not split or do not say."""
    if not _is_split(pools):
        return None
    prefill = merged(pool.total for pool in pools if pool.role == "prefill")
    decode = merged(pool.total for pool in pools if pool.role == "decode")
    return _legs(prefill, decode, router)


def _is_split(pools: Sequence[PoolFacts]) -> bool:
    return any(pool.role in ("prefill", "decode") for pool in pools)


def preferred(router: SystemTtft | None, traced: SystemTtft | None, composed: SystemTtft) -> SystemTtft:
    """The user's TTFT as it is known best; one without data gives way. The legs are those of the servers' pages."""
    if router is not None and router.status == "ok" and (router.count or 0) >= LEAST_SEEN_SHARE * (composed.count or 0):
        return replace(router, parts=composed.parts)
    if traced is not None and traced.status == "ok":
        return traced
    return composed


def _ttft(prefill: Increase, decode: Increase, dispatch: Dispatch) -> SystemTtft:
    if not (prefill.is_known and decode.is_known) and dispatch == "serial":
        return SystemTtft("no_data", None, None, NO_QUANTILES, "composed", TtftParts(None, None))
    if dispatch == "concurrent":
        return _own_ttft(decode)
    first, second = prefill.histograms.get("e2e"), decode.histograms.get("ttft")
    if first is None or second is None:
        return SystemTtft("metric_missing", 0, None, NO_QUANTILES, "composed", TtftParts(None, None))
    prefill_leg, decode_leg = first.mean, second.mean
    if prefill_leg is None or decode_leg is None:
        parts = TtftParts(prefill_leg, decode_leg)
        return SystemTtft("no_data", 0, None, NO_QUANTILES, "composed", parts)
    return SystemTtft(
        "ok",
        count=round(second.count),
        mean=prefill_leg + decode_leg,
        quantiles=quantiles_of_sum(first, second),
        source="composed",
        parts=TtftParts(prefill_leg, decode_leg),
    )


def _own_ttft(increase: Increase) -> SystemTtft:
    own = distribution("ttft", increase.histograms.get("ttft")) if increase.is_known else untold()
    return SystemTtft(own.status, own.count, own.mean, own.quantiles, "composed", TtftParts(None, own.mean))


def contract_share(prompts: HistogramIncrease | None, promised: tuple[float, float] | None) -> ShareBounds | None:
    """Share of finished requests whose prompt length lies in `promised`; bounded, as buckets rarely end there."""
    if prompts is None or promised is None or prompts.count <= 0:
        return None
    least, most = promised
    surely = maybe = 0.0
    for bucket, count in enumerate(prompts.counts):
        low = prompts.edges[bucket - 1] if bucket else 0.0
        high = prompts.edges[bucket] if bucket < len(prompts.edges) else float("inf")
        if low >= least - 1 and high <= most:  # lengths are whole: (low, high] holds low + 1 .. high
            surely += count
        elif high >= least and low < most:
            maybe += count
    return ShareBounds(surely / prompts.count, (surely + maybe) / prompts.count)


def _legs(prefill: Increase, decode: Increase, router: PoolFacts | None) -> Legs | None:
    ended, begun = finished(prefill), decode.histograms.get("ttft")
    if ended is None or begun is None:
        return None
    asked = router_requests(fresh_total(router)) if router is not None else None
    return Legs(
        round(ended),
        round(begun.count),
        round(ended - begun.count),
        requests=None if asked is None else round(asked),
    )


def _requests_per_second(pool: PoolFacts) -> float | None:
    return _added([rate(finished(gain), seconds) for gain, seconds in pool.parts()])


def _tokens_per_gpu(pools: Sequence[PoolFacts]) -> float | None:
    """Prompt tokens where prompts are computed plus generated tokens where users' tokens come from, per GPU."""
    tokens: list[float | None] = []
    gpus = 0
    for pool in pools:
        if pool.gpus is None:
            return None
        gpus += pool.gpus
        for gain, seconds in pool.parts():
            if pool.role in ("prefill", "both"):
                tokens.append(rate(gain.count("prompt_tokens"), seconds))
            if pool.role in ("decode", "both"):
                tokens.append(rate(gain.count("generation_tokens"), seconds))
    total_rate = _added(tokens)
    return total_rate / gpus if total_rate is not None and gpus else None


def _added(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
