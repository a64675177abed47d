"""The state's value types: what indicators and verdicts say about the deployment at one moment.

Field names are the public names of `GET /api/v1/state` (docs/state.md), so that writing the state out needs no
translation. Times are unix seconds, durations seconds, sizes bytes, shares and rates 0..1; None = not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent.model import Role, Status

if TYPE_CHECKING:
    from agent.requests_state import RequestsState, SlowRequest

QUANTILES: tuple[tuple[str, float], ...] = (("0.5", 0.5), ("0.9", 0.9), ("0.95", 0.95), ("0.99", 0.99))
LATENCIES = ("ttft", "tpot", "itl", "queue", "prefill", "decode", "e2e")


@dataclass(frozen=True, slots=True)
class Quantile:
    """`low` and `high` hold whatever the distribution inside the buckets was; `likely` is a 95 % interval.

    `high` None: nothing bounds it from above; then `value` = `low` and it is shown as "> low". `value` None: only the
    bounds are known, and nothing between them is more likely than the rest (a sum of two legs).
    """

    value: float | None
    low: float
    high: float | None
    likely: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """A latency (or another positive quantity) over a window.

    `count` None with `no_data`: no page told anything, so it is not known whether anything happened.
    `low_resolution`: all observations lie in one bucket. `implausible`: the data contradict themselves (a sum of
    zero with traffic), so no number is given. `derived`: the family is missing and the mean comes from others.
    """

    status: Status
    count: int | None = 0
    mean: float | None = None
    quantiles: Mapping[str, Quantile | None] = field(
        default_factory=lambda: dict.fromkeys((name for name, _ in QUANTILES), None)
    )
    source: Literal["histogram", "traces"] = "histogram"
    low_resolution: bool = False
    implausible: bool = False
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rates over the window; each target's over its own covered time, then added."""

    requests_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    generation_tokens_per_s_per_gpu: float | None = None
    tokens_per_s_per_user: float | None = None


@dataclass(frozen=True, slots=True)
class Speculation:
    """`drafts` and `draft_tokens` as counted; `padded_drafts` is what the rates leave out."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    padded_drafts: int
    acceptance_rate: float | None
    acceptance_length: float | None
    per_position: tuple[float | None, ...]
    conditional_per_position: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class KvTransfer:
    """`transfers` counts NIXL handles (per local rank x remote rank), `bytes_per_s` is over the window's real time,
    `handle_bytes_per_s` the mean throughput of one handle. A counter that the page lacks is None, never 0.

    `source`: the connector that recorded it (nixl, mooncake-store, lmcache, hf3fs, offloading); another's transfers are
    its own loads. `registered_growth_bytes`: memory registered with NIXL and not given back in the window.
    """

    transfers: int | None
    time: Distribution
    post_time: Distribution
    bytes: int | None
    bytes_per_s: float | None
    handle_bytes_per_s: float | None
    failed: int | None
    failed_notifications: int | None
    expired: int | None
    after_expiry: int | None
    recomputed_tokens: int | None
    source: str | None = None
    registered_growth_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KvFetch:
    """Requests whose KV is being fetched now, by stage."""

    waiting_to_start: float | None = None
    in_progress: float | None = None
    completed_waiting: float | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Who runs and who waits now, in requests; KV use as shares of the cache."""

    running: float | None = None
    waiting: float | None = None
    waiting_capacity: float | None = None
    waiting_deferred: float | None = None
    kv_fetch: KvFetch = KvFetch()
    kv_usage_max: float | None = None
    kv_usage_mean: float | None = None
    preemptions: int | None = None


@dataclass(frozen=True, slots=True)
class EngineState:
    """One data-parallel rank over the window."""

    latency: Mapping[str, Distribution]
    tpot_token_mean: float | None
    speculation: Speculation | None
    kv_transfer: KvTransfer
    load: Load
    throughput: Throughput
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TargetState:
    """One /metrics address. `covered_s` is the real time between the first and last page inside the window."""

    up: bool
    age_s: float | None
    covered_s: float
    engines: Mapping[str, EngineState]
    problems: tuple[str, ...]
    scrape_s: float | None = None
    page_bytes: int | None = None
    samples: int | None = None
    scrapes: int = 0
    restarts: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    multiprocess: bool | None = None
    metric_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolState:
    """One pool over the window: its targets, and their numbers together."""

    role: Role
    gpus: int | None
    targets: Mapping[str, TargetState]
    latency: Mapping[str, Distribution]
    tpot_token_mean: float | None
    tpot_mix_difference: float | None
    throughput: Throughput
    speculation: Speculation | None
    kv_transfer: KvTransfer
    load: Load
    outcomes: Mapping[str, int]
    http: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TtftParts:
    """The two legs that a composed TTFT adds up from, mean seconds."""

    prefill_leg: float | None
    kv_and_decode_leg: float | None


@dataclass(frozen=True, slots=True)
class SystemTtft:
    """What the user waits for the first token, and how that is known."""

    status: Status
    count: int | None
    mean: float | None
    quantiles: Mapping[str, Quantile | None]
    source: Literal["router", "traces", "composed"]
    parts: TtftParts


@dataclass(frozen=True, slots=True)
class ShareBounds:
    """A share that the data only bound."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Legs:
    """Requests that finished their prefill leg, decode legs that began, and the difference (retries, clients gone).

    `requests`: what the router in front counted; None without one.
    """

    prefill: int
    decode: int
    unmatched: int
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class RouterState:
    """The router in front, over the window. `kind`: what its pages are of; `latency`: ttft, e2e, itl and tpot there.

    A number that this kind of router does not show is None. `errors`: requests that failed, as it says itself.
    """

    kind: str | None
    targets: Mapping[str, TargetState]
    requests: int | None
    requests_per_s: float | None
    errors: int | None
    running: float | None
    queued: float | None
    latency: Mapping[str, Distribution]


@dataclass(frozen=True, slots=True)
class SystemState:
    """What the user gets from all pools together."""

    ttft: SystemTtft
    requests_per_s: float | None
    total_tokens_per_s_per_gpu: float | None
    goodput_tokens_per_s_per_gpu: float | None = None
    objectives_met_share: float | None = None
    contract_share: ShareBounds | None = None
    legs: Legs | None = None
    router: RouterState | None = None


@dataclass(frozen=True, slots=True)
class Bounded:
    """A number with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class MemoryState:
    """One process of a target and what its memory does."""

    target: str
    pid: int
    started: float | None
    title: str
    kind: str
    engine: str | None
    rss_bytes: int | None
    anon_bytes: int | None
    swap_bytes: int | None
    file_bytes: int | None
    shmem_bytes: int | None
    trend: Literal["warming", "steady", "growing", "leaking", "unknown"]
    severity: Literal["critical", "warning"] | None
    slope_bytes_per_hour: Bounded
    limit_bytes: int | None
    hours_to_limit: Bounded
    measure: Literal["anon+swap", "rss", "cgroup_anon"] | None
    at: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProblemState:
    """Something wrong or worth knowing, with the contract's code."""

    code: str
    target: str | None
    since: float
    text: str
    severity: Literal["critical", "warning", "info"]
    pool: str | None = None
    engine: str | None = None
    process: str | None = None
    evidence: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerdictState:
    """The judgement of one objective now."""

    objective: str
    scope: str
    verdict: Literal["met", "breached", "undecided", "insufficient_data", "no_data", "not_applicable"]
    status: Literal["ok", "pending", "firing", "resolved"]
    since: float | None
    judged_on: str
    value: float | None
    low: float | None
    high: float | None
    target: float
    count: int
    cause: Mapping[str, object] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class ExporterState:
    """A page beside a target's own, of NIXL's telemetry. `error`: why it did not come the last time, None if it did.

    `kv_transfer` counts every transfer of the process, with times exact to the microsecond, but means alone.
    """

    target: str
    age_s: float | None
    covered_s: float
    error: str | None
    kv_transfer: KvTransfer


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is known at one moment, over one window."""

    at: float
    window_s: float
    pools: Mapping[str, PoolState]
    system: SystemState
    memory: tuple[MemoryState, ...] = ()
    verdicts: tuple[VerdictState, ...] = ()
    problems: tuple[ProblemState, ...] = ()
    deployment: str | None = None
    requests: RequestsState | None = None
    slowest_requests: tuple[SlowRequest, ...] = ()
    exporters: Mapping[str, ExporterState] = field(default_factory=dict)
    type: Literal["state"] = "state"
