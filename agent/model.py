"""The value types that walk through the house, without behaviour of their own and importing nothing of ours.

In order of the data's way: *observations* (what a source brings), *readings* (what a page says, typed), and the
words shared by all rooms. Times are unix seconds, durations seconds, sizes bytes, shares and rates 0..1.
`None` = not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Role = Literal["prefill", "decode", "both", "router"]
Status = Literal["ok", "no_data", "not_applicable", "metric_missing"]

# --------------------------------------------------------------------------------------------------------------
# observations: what a source brings, stamped with the moment it was asked for
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageObservation:
    """One fetched metrics page. `t` is when the request was sent, `took_seconds` until the body was complete."""

    t: float
    target: str
    page: str
    took_seconds: float | None = None
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class FailureObservation:
    """A page that could not be fetched. `error` is one short word such as timeout, refused, http_503, too_large."""

    t: float
    target: str
    error: str
    text: str = ""


ProcessKind = Literal["engine_core", "worker", "api_server", "coordinator", "launcher", "other"]


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process at one moment; its identity is (pid, started_seconds)."""

    pid: int
    title: str
    started_seconds: float | None = None
    parent_pid: int | None = None
    kind: ProcessKind = "other"
    engine: str | None = None
    rss_bytes: int | None = None
    anon_bytes: int | None = None
    swap_bytes: int | None = None
    file_bytes: int | None = None
    shmem_bytes: int | None = None
    hugetlb_bytes: int | None = None
    pss_bytes: int | None = None
    threads: int | None = None
    fds: int | None = None
    cache_budget_bytes: int | None = None
    """Anonymous memory that the caches this process was told to keep may still add after start; None = not known."""


@dataclass(frozen=True, slots=True)
class CgroupSample:
    """The memory of the container (or host) around a server. `over_estimate`: the split into kinds was unreadable."""

    limit_bytes: int | None = None
    current_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    shmem_bytes: int | None = None
    kernel_bytes: int | None = None
    oom_kills: int | None = None
    host_available_bytes: int | None = None
    over_estimate: bool = False


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Something a source could not do, with the contract's problem code."""

    code: str
    target: str
    text: str
    pid: int | None = None


OWN_TARGET = "pdwatch"
"""Where pdwatch's own process is shown among the targets' processes."""


@dataclass(frozen=True, slots=True)
class ProcessesObservation:
    """The processes behind one target, read in one go."""

    t: float
    target: str
    processes: tuple[ProcessSample, ...]
    cgroup: CgroupSample | None = None
    problems: tuple[SourceProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """One request's leg as its server traced it (vLLM's `llm_request` span)."""

    trace: str
    request: str
    start: float
    end: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    ttft_seconds: float | None = None
    e2e_seconds: float | None = None
    queue_seconds: float | None = None
    prefill_seconds: float | None = None
    decode_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SpansObservation:
    """Spans that arrived together."""

    t: float
    target: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ClockStepObservation:
    """The wall clock was set: all after is `step_seconds` later (or earlier, when negative) than real time went."""

    t: float
    step_seconds: float


Observation = PageObservation | FailureObservation | ProcessesObservation | SpansObservation | ClockStepObservation

# --------------------------------------------------------------------------------------------------------------
# readings: what one page says, typed. A Layout is what stays the same from page to page; a Reading what changed.
# --------------------------------------------------------------------------------------------------------------

TARGET_WIDE = ""
"""The engine of a series that has none (HTTP counters, admission refusals): it belongs to the whole target."""


class SeriesKey(NamedTuple):
    """One series in our words: `engine` ("" = target-wide), logical `metric`, and the value of its own label, if any.

    `raw` tells apart series that mean the same (`http_requests` of two handlers): each is differenced on its own,
    and only their increases are added.
    """

    engine: str
    metric: str
    label: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class HistogramKey:
    """One histogram of one engine with the edges its page gave: finite upper bounds, ascending; +Inf is implied."""

    series: SeriesKey
    edges: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What a page holds, in page order. Compared by identity: the same object means the same page structure."""

    engines: tuple[str, ...]
    counters: tuple[SeriesKey, ...]
    gauges: tuple[SeriesKey, ...]
    histograms: tuple[HistogramKey, ...]
    names: Mapping[str, str]
    """Logical metric -> the name on the page that was taken for it."""
    info: Mapping[str, Mapping[str, str]]
    """Engine -> labels of the page's cache_config_info, as text."""
    multiprocess: bool = False
    replicas: bool = False
    """Several servers behind one page (Ray's), told apart by `raw`: each restarts on its own."""


class HistogramValue(NamedTuple):
    """One histogram at one moment. `counts` are per bucket (not cumulative), the last one above the top finite edge."""

    counts: tuple[float, ...]
    total: float | None
    """The page's `_sum`; None when it is NaN or absent."""


@dataclass(frozen=True, slots=True)
class PageProblem:
    """Something wrong inside one page that leaves the rest of it usable; `harmless`: and nothing is lost by it."""

    code: str
    text: str
    engine: str = TARGET_WIDE
    harmless: bool = False


@dataclass(slots=True)
class Reading:
    """One page of one target. `counters` and `histograms` list what differs from the page before (all, if `fresh`).

    Indices are positions in the layout. A gauge without a value (NaN, no sample) is None.
    A histogram or counter that this page gives in an unusable form is named in `problems` and simply not listed.
    """

    t: float
    target: str
    layout: Layout
    counters: dict[int, float]
    histograms: dict[int, HistogramValue]
    gauges: list[float | None]
    fresh: bool
    problems: tuple[PageProblem, ...] = ()
    samples: int = 0
    took_seconds: float | None = None
    page_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a person may have to know: the contract's code, where, since when, and a sentence."""

    code: str
    target: str
    since: float
    text: str
    severity: Literal["critical", "warning", "info"] = "warning"
    pool: str = ""
    engine: str = ""
    evidence: Mapping[str, float | str | None] = field(default_factory=dict)
    process: str = ""
    """The title of the process it is about, such as VLLM::EngineCore_DP0; never a pid."""
