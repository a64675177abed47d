"""A small deployment for trials. In: phases of what an engine does. Out: its series in promtool's notation.

The world is whole: every series that a rule reads is there, so that a rule which fires where it should not is seen.
Numbers are of one step; a phase overrides what is out of the ordinary in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from agent.export.rules.promql import matchers

Role = Literal["prefill", "decode", "both"]
Values = float | Sequence[float]

GRID = 1 << 16


@dataclass(frozen=True, slots=True)
class Phase:
    """What one engine does in each of `steps` steps.

    `requests` end, of which `failed` with reason error and `one_token` after their first token; each of the others has
    `tokens` more; a verify step takes `step` seconds and gives 1 + `accepted` of them. `slow`: requests of which TTFT
    and TPOT are `slow_seconds`. `drop`: what is missing on the page. `reset`: counters begin at 0. `gone`: no scrape
    comes; `blink`: every fourth does not.
    """

    steps: int
    requests: float = 8
    begun: float | None = None
    failed: float = 0
    one_token: float = 0
    tokens: float = 64
    ttft: float = 0.5
    step: float = 0.015625
    accepted: float = 1
    slow: float = 0
    slow_seconds: float = 0
    transfers: float | None = None
    transfer_seconds: float = 0.0625
    expired: float = 0
    failed_transfers: float = 0
    local_tokens: float = 0
    steps_on_prefill: float = 0
    answered_5xx: float = 0
    running: Values = 8
    capacity: Values = 0
    deferred: Values = 0
    in_progress: Values = 0
    kv_usage: Values = 0.5
    drop: tuple[str, ...] = ()
    reset: bool = False
    gone: bool = False
    blink: bool = False
    down: bool = False

    @property
    def tpot(self) -> float:
        """Seconds per token after the first."""
        return self.step / (1 + self.accepted)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine is: labels of its series beside the family's own."""

    pool: str
    role: Role
    target: str
    engine: str = "0"
    deployment: str | None = None

    def labels(self, **more: str) -> str:
        own = {"deployment": self.deployment, "engine": self.engine, "instance": f"{self.target}:8000"}
        own |= {"job": f"vllm-{self.pool}", "model_name": "demo", "pool": self.pool, "role": self.role}
        return "{" + matchers(**dict(sorted({**own, "target": self.target, **more}.items()))) + "}"

    @property
    def up(self) -> str:
        labels = {"deployment": self.deployment, "instance": f"{self.target}:8000", "job": f"vllm-{self.pool}"}
        return "up{" + matchers(**labels, pool=self.pool, role=self.role, target=self.target) + "}"


def played(place: Place, phases: Sequence[Phase], prefix: str, edges: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """All series of one engine. `edges`: indicator -> bucket edges that rules read."""
    counters: dict[str, list[str]] = {}
    gauges: dict[str, list[str]] = {}
    values: dict[str, float] = {}
    for phase in phases:
        if phase.reset:
            values = {}
        gains = {name: _exact(gain) for name, gain in _gains(place, phase, prefix, edges)}
        for name, gain in gains.items():
            counters.setdefault(name, []).append(_ramp(name, values.get(name, 0.0), gain, phase))
            values[name] = values.get(name, 0.0) + gain * phase.steps
        for name, level in _levels(place, phase, prefix):
            gauges.setdefault(name, []).append(_level(name, level, phase))
    series = {name: " ".join(parts) for name, parts in {**counters, **gauges}.items()}
    series[place.up] = " ".join(_up(phase) for phase in phases)
    return series


def _gains(place: Place, phase: Phase, prefix: str, edges: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, float]]:
    decode = place.role != "prefill"
    begun = phase.requests if phase.begun is None else phase.begun
    longer = phase.requests - phase.one_token if decode else 0.0
    decoding = longer * phase.tokens
    verify = decoding / (1 + phase.accepted) if decode else phase.steps_on_prefill
    usual = longer - phase.slow
    spent = usual * phase.tpot * phase.tokens + phase.slow * phase.slow_seconds * phase.tokens

    def series(family: str, **labels: str) -> str:
        return f"{prefix}vllm:{family}{place.labels(**labels)}"

    def histogram(family: str, indicator: str, count: float, total: float, slow: float) -> Iterator[tuple[str, float]]:
        yield series(f"{family}_sum"), total
        yield series(f"{family}_count"), count
        for edge in edges.get(indicator, ()):
            yield series(f"{family}_bucket", le=edge), count - slow if float(edge) < phase.slow_seconds else count

    first = (begun - phase.slow) * phase.ttft + phase.slow * phase.slow_seconds
    yield from histogram("time_to_first_token_seconds", "ttft", begun, first, phase.slow)
    whole = first if not decode else first + spent
    slow_whole = phase.slow if phase.slow else 0.0
    yield from histogram("e2e_request_latency_seconds", "e2e", phase.requests, whole, slow_whole)
    per_token = usual * phase.tpot + phase.slow * phase.slow_seconds
    tpot_family = "request_time_per_output_token_seconds"
    yield from histogram(tpot_family, "tpot", phase.requests, per_token, phase.slow if decode else 0.0)
    yield from histogram("inter_token_latency_seconds", "itl", verify, spent, 0.0)
    yield from histogram("request_decode_time_seconds", "decode", phase.requests, spent, 0.0)
    yield series("request_generation_tokens_bucket", le="1.0"), phase.one_token if decode else phase.requests
    yield series("request_generation_tokens_sum"), phase.requests + decoding
    yield series("request_generation_tokens_count"), phase.requests
    yield series("request_prompt_tokens_sum"), phase.requests * 16384
    yield series("request_prompt_tokens_count"), phase.requests
    yield series("generation_tokens_total"), begun + decoding
    yield series("prompt_tokens_total"), begun * 16384
    yield series("request_success_total", finished_reason="stop" if decode else "length"), phase.requests - phase.failed
    yield series("request_success_total", finished_reason="error"), phase.failed
    yield series("nixl_num_failed_transfers_total"), phase.failed_transfers
    yield series("nixl_num_kv_expired_reqs_total"), phase.expired
    yield f"http_requests_total{_of_target(place, status='2xx')}", phase.requests
    yield f"http_requests_total{_of_target(place, status='5xx')}", phase.answered_5xx
    if decode:
        transfers = begun if phase.transfers is None else phase.transfers
        yield from histogram(
            "nixl_xfer_time_seconds", "kv_transfer", transfers, transfers * phase.transfer_seconds, 0.0
        )
        yield series("prompt_tokens_by_source_total", source="external_kv_transfer"), begun * 16384
        yield series("prompt_tokens_by_source_total", source="local_compute"), phase.local_tokens
        padded = longer if place.role == "decode" else 0.0
        yield series("spec_decode_num_drafts_total"), verify + padded
        yield series("spec_decode_num_draft_tokens_total"), 2 * (verify + padded)
        yield series("spec_decode_num_accepted_tokens_total"), verify * phase.accepted
        for position, part in (("0", 0.75), ("1", 0.25)):
            name = series("spec_decode_num_accepted_tokens_per_pos_total", position=position)
            yield name, verify * phase.accepted * part


def _levels(place: Place, phase: Phase, prefix: str) -> Iterator[tuple[str, Values]]:
    waiting = [a + b for a, b in zip(_listed(phase.capacity, phase), _listed(phase.deferred, phase), strict=True)]
    yield f"{prefix}vllm:num_requests_running{place.labels()}", phase.running
    yield f"{prefix}vllm:num_requests_waiting{place.labels()}", waiting
    yield f"{prefix}vllm:num_requests_waiting_by_reason{place.labels(reason='capacity')}", phase.capacity
    yield f"{prefix}vllm:num_requests_waiting_by_reason{place.labels(reason='deferred')}", phase.deferred
    yield f"{prefix}vllm:kv_cache_usage_perc{place.labels()}", phase.kv_usage
    if place.role != "prefill":
        yield f"{prefix}vllm:num_requests_kv_fetch_by_stage{place.labels(stage='in_progress')}", phase.in_progress


def _of_target(place: Place, **labels: str) -> str:
    text = place.labels(handler="/v1/completions", method="POST", **labels)
    return text.replace(f'engine="{place.engine}",', "").replace('model_name="demo",', "")


def _ramp(name: str, begin: float, gain: float, phase: Phase) -> str:
    if _missing(name, phase):
        return f"_x{phase.steps}"
    if phase.blink:
        values = [begin + gain * (step + 1) for step in range(phase.steps)]
        return " ".join("_" if step % 4 == 3 else _text(value) for step, value in enumerate(values))
    first = _text(begin + gain)
    return first if phase.steps == 1 else f"{first}+{_text(gain)}x{phase.steps - 1}"


def _level(name: str, level: Values, phase: Phase) -> str:
    if _missing(name, phase):
        return f"_x{phase.steps}"
    values = _listed(level, phase)
    if phase.blink:
        return " ".join("_" if step % 4 == 3 else _text(value) for step, value in enumerate(values))
    if len(set(values)) > 1:
        return " ".join(map(_text, values))
    return _text(values[0]) if phase.steps == 1 else f"{_text(values[0])}x{phase.steps - 1}"


def _up(phase: Phase) -> str:
    if phase.gone:
        return f"_x{phase.steps}"
    if phase.blink:
        return " ".join("0" if step % 4 == 3 else "1" for step in range(phase.steps))
    value = "0" if phase.down else "1"
    return value if phase.steps == 1 else f"{value}x{phase.steps - 1}"


def _missing(name: str, phase: Phase) -> bool:
    return phase.gone or phase.down or any(part in name for part in phase.drop)


def _listed(level: Values, phase: Phase) -> list[float]:
    if isinstance(level, int | float):
        return [float(level)] * phase.steps
    return [float(value) for value in level][: phase.steps]


def _exact(gain: float) -> float:
    """The nearest number that adds up without error: a counter that dust makes smaller would be a restart."""
    return round(gain * GRID) / GRID


def _text(value: float) -> str:
    return format(Decimal(value).normalize(), "f")
