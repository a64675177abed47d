"""Latency: an increase and the pool's role come in, the seven latencies and the live TPOT go out.

Formulas: docs/indicators.md. A prefill leg ends with its first token and has no TPOT; a decode pool's TPOT is the mean
over requests (the forced zeros of one-token requests were taken out by the windows).
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.indicators.distribution import distribution, untold, without_numbers
from agent.indicators.percentiles import Percentiles
from agent.model import Role
from agent.state import LATENCIES, Distribution
from agent.windows.increase import Increase

NOT_ON_PREFILL = frozenset({"tpot", "itl", "decode"})


def latencies(
    increase: Increase, role: Role, percentiles: Mapping[str, Percentiles] | None = None, heard: bool = False
) -> dict[str, Distribution]:
    """Name -> distribution in seconds, for every name of `LATENCIES`; `percentiles`: what was recovered.

    `heard`: its servers answer now, even if no two pages lie in the window yet.
    """
    percentiles = percentiles or {}
    found: dict[str, Distribution] = {}
    for name in LATENCIES:
        if role == "prefill" and name in NOT_ON_PREFILL:
            found[name] = without_numbers("not_applicable")
        elif not increase.is_known:
            found[name] = untold(heard)
        elif name == "tpot" and "tpot" not in increase.histograms:
            found[name] = _tpot_from_decode_time(increase)
        else:
            found[name] = distribution(name, increase.histograms.get(name), percentiles.get(name))
    return found


def tpot_token_mean(increase: Increase, role: Role) -> float | None:
    """Seconds per output token over all tokens of the window, in flight or finished.

    Inter-token latency is observed once per step and request, so its sum is the decoding time and
    generated tokens minus first tokens are what came out of it. Right with speculative decoding.
    """
    itl, ttft = increase.histograms.get("itl"), increase.histograms.get("ttft")
    generated = increase.count("generation_tokens")
    if role == "prefill" or itl is None or ttft is None or generated is None:
        return None
    tokens = generated - ttft.count
    seconds = itl.total if not itl.unsummed else None
    return seconds / tokens if seconds is not None and tokens > 0 and itl.count > 0 else None


def _tpot_from_decode_time(increase: Increase) -> Distribution:
    """Before vLLM 0.11 the per-request family is missing: decode time over tokens after the first gives a mean only."""
    decode, tokens = increase.histograms.get("decode"), increase.histograms.get("generation_tokens")
    if decode is None or tokens is None or tokens.unsummed or decode.unsummed:
        return without_numbers("metric_missing")
    after_first = tokens.total - tokens.count
    if after_first <= 0:
        return without_numbers("no_data")
    single = tokens.count_at_or_below(1.0) or 0.0
    return Distribution("ok", count=round(tokens.count - single), mean=decode.total / after_first, derived=True)
