"""The state's value types for requests that were traced; the rest of the state, and its rules, are in `agent.state`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.state import Distribution


@dataclass(frozen=True, slots=True)
class RequestBand:
    """Requests whose prompts had `low` to `high` tokens, both ends included; `high` None: or more."""

    low: int
    high: int | None
    count: int
    ttft: Distribution
    tpot: Distribution


@dataclass(frozen=True, slots=True)
class RequestPair:
    """Requests that went from one prefill target to one decode target. Times are seconds."""

    prefill: str
    decode: str
    count: int
    ttft: Distribution
    handover_mean: float | None
    kv_wait_mean: float | None


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """One request with its parts (name -> seconds). `link`: its trace in the trace backend, when one is configured."""

    at: float
    ttft_s: float
    tpot_s: float | None
    e2e_s: float
    parts: Mapping[str, float | None]
    prefill: str | None
    decode: str
    prompt_tokens: int | None
    completion_tokens: int | None
    trace: str
    request: str
    link: str | None = None


@dataclass(frozen=True, slots=True)
class RequestsState:
    """What the spans of the window say. `counts`: what became of the legs since the start (docs/traces.md).

    `coverage`: pool -> legs that came as spans over legs in its histograms; `complete`: so nearly all that the joined
    requests stand for all. `contract_*`: prompts of the promised
    lengths only. `since`, `until`: the stretch that is covered.
    """

    since: float
    until: float
    joined: int
    complete: bool
    coverage: Mapping[str, float | None]
    counts: Mapping[str, int]
    ttft: Distribution
    tpot: Distribution
    contract_ttft: Distribution
    contract_tpot: Distribution
    parts: Mapping[str, Distribution]
    bands: tuple[RequestBand, ...]
    pairs: tuple[RequestPair, ...]
