"""How large a simulated fleet is and how fast it runs. In: a few sizes. Out: frozen numbers that everything else reads.

`story()` is four prefill servers of four engines and one decode server of eight, for prompts of 16K to 256K tokens;
`small()` is two engines on each side with light traffic, for long stretches of simulated time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculative decoding. `chances[i]`: draft token i is accepted, given that all before it were."""

    chances: tuple[float, ...]

    @property
    def depth(self) -> int:
        return len(self.chances)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Who asks. The rate swings over the day (UTC) between `night_share` of the peak and the peak."""

    peak_requests_per_second: float
    night_share: float = 0.3
    peak_hour: float = 15.0
    prompt_tokens_median: float = 36_000.0
    prompt_tokens_sigma: float = 0.6
    prompt_tokens_least: int = 16_384
    prompt_tokens_most: int = 260_000
    completion_tokens_median: float = 700.0
    completion_tokens_sigma: float = 0.75
    max_tokens: int = 4096
    single_token_share: float = 0.004
    """Requests that want one token only, such as classifications: vLLM records a TPOT of 0 for them."""
    cached_share: float = 0.15
    """Share of requests whose prompt begins as an earlier one did; up to half of it is then in the prefix cache."""
    patience_seconds: float = 120.0
    """A client that has no first token by then goes away."""


@dataclass(frozen=True, slots=True)
class PrefillSpeed:
    """Seconds to prefill n tokens: overhead + n / tokens_per_second * (1 + n / doubling_tokens)."""

    tokens_per_second: float = 34_000.0
    doubling_tokens: float = 500_000.0
    overhead_seconds: float = 0.03
    noise: float = 0.03


@dataclass(frozen=True, slots=True)
class DecodeSpeed:
    """Seconds of one decode step with n requests whose contexts have c tokens: base + n * each + c * per_token."""

    base_seconds: float = 0.0362
    per_request_seconds: float = 0.00012
    per_context_token_seconds: float = 2.2e-9


@dataclass(frozen=True, slots=True)
class Transfer:
    """The pull of one request's KV. `bytes_per_token`: 78 layers of 576 latent bytes."""

    bytes_per_token: int = 44_928
    bytes_per_second: float = 42e9
    latency_seconds: float = 0.004
    noise: float = 0.25
    handshake_seconds: float = 0.3
    """Added to a decode engine's first contact with a prefill server."""
    poll_seconds: float = 0.012
    """From completion to being seen, at the least; a step more when the engine is busy."""
    lease_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Servers of one role. `multiprocess`: one API server process per engine, so the page is merged from files."""

    targets: int
    engines: int
    multiprocess: bool
    drafting: Drafting
    kv_tokens: int
    """KV cache of one engine, in tokens."""
    max_running: int = 256


@dataclass(frozen=True, slots=True)
class Topology:
    """One fleet. All randomness comes from `seed`."""

    prefill: Pool
    decode: Pool
    traffic: Traffic
    prefill_speed: PrefillSpeed = field(default_factory=PrefillSpeed)
    decode_speed: DecodeSpeed = field(default_factory=DecodeSpeed)
    transfer: Transfer = field(default_factory=Transfer)
    model: str = "zai-org/GLM-5.2"
    max_model_len: int = 262_144
    block_tokens: int = 64
    tokenize_seconds_per_token: float = 8e-7
    proxy_seconds: float = 0.003
    """What the proxy takes before each leg."""
    host_uptime_seconds: float = 2_600_000.0
    """Uptime of the hosts when the simulation begins; it leaks into the sums of failed requests."""
    restart_seconds: float = 150.0
    """From the end of a server to its first page."""
    seed: int = 1


def story(seed: int = 1) -> Topology:
    """Prefill 4 x DP4 with 1 draft token, decode 1 x DP8 with 3, NIXL pull."""
    return Topology(
        prefill=Pool(4, 4, multiprocess=False, drafting=Drafting((0.7,)), kv_tokens=1_500_000),
        decode=Pool(1, 8, multiprocess=True, drafting=Drafting((0.68, 0.62, 0.5)), kv_tokens=2_400_000),
        traffic=Traffic(peak_requests_per_second=4.5),
        seed=seed,
    )


def small(seed: int = 1) -> Topology:
    """Two engines on each side and about one request every ten seconds at the peak."""
    return Topology(
        prefill=Pool(1, 2, multiprocess=False, drafting=Drafting((0.7,)), kv_tokens=1_500_000),
        decode=Pool(1, 2, multiprocess=True, drafting=Drafting((0.68, 0.62, 0.5)), kv_tokens=2_400_000),
        traffic=Traffic(peak_requests_per_second=0.12),
        seed=seed,
    )
