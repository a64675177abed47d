"""The names of vLLM's metrics over its versions. In: a sample's name. Out: which logical metric it is, and which part.

The one place that knows how vLLM spells things. A logical metric has ordered aliases: on a page the first alias that
has samples is taken, and two aliases are never added, because a server that shows hidden metrics exposes the same
events under both. Every row also says since which version it can be expected and what is lost without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from agent.reading.connector_names import CONNECTOR_NAMES
from agent.reading.name import Name, Part

__all__ = [
    "NAMES",
    "NIXL",
    "RAY_SPELLINGS",
    "ROUTER_FAMILIES",
    "SPELLINGS",
    "Name",
    "Part",
    "SampleName",
    "candidates",
    "families_of",
    "family_names",
    "missing",
    "sample_names",
    "samples_of",
    "spellings",
]

SPELLINGS = ("vllm:", "vllm_", "ray_vllm_", "ray_vllm:")
"""What stands before a bare name: vLLM's own, a colon-free relabelling, and Ray Serve's exporter."""

RAY_SPELLINGS = ("ray_vllm_", "ray_vllm:")

ROUTER_FAMILIES = frozenset(
    (
        "vllm:current_qps",
        "vllm:healthy_pods_total",
        "vllm:num_incoming_requests_total",
        "vllm:avg_latency",
        "vllm:avg_itl",
    )
)
"""Families that only a router shows; one on a page means that its `vllm:` names speak of other servers."""


NIXL = "0.11.2"

NAMES: tuple[Name, ...] = (
    # -- histograms ------------------------------------------------------------------------------------------------
    Name("ttft", "histogram", ("time_to_first_token_seconds",), loses="time to first token"),
    # The old "time per output token" observed one value per engine step: it is ITL under another name, never TPOT.
    Name(
        "itl",
        "histogram",
        ("inter_token_latency_seconds", "time_per_output_token_seconds"),
        loses="inter-token latency, the live token mean of TPOT and the count of padded drafts",
    ),
    Name(
        "tpot",
        "histogram",
        ("request_time_per_output_token_seconds",),
        since="0.11.2",
        loses="TPOT per request: only its mean remains, from decode time over generated tokens",
    ),
    Name("e2e", "histogram", ("e2e_request_latency_seconds",), loses="end-to-end latency and composed system TTFT"),
    Name("queue", "histogram", ("request_queue_time_seconds",), loses="queue time"),
    Name("prefill", "histogram", ("request_prefill_time_seconds",), loses="prefill time"),
    Name("decode", "histogram", ("request_decode_time_seconds",), loses="decode time"),
    Name("inference", "histogram", ("request_inference_time_seconds",), loses="inference time"),
    Name("prompt_tokens", "histogram", ("request_prompt_tokens",), loses="how long prompts are"),
    Name(
        "generation_tokens",
        "histogram",
        ("request_generation_tokens",),
        loses="how many requests generated one token, so the zeros they put into TPOT cannot be taken out",
    ),
    Name("max_tokens", "histogram", ("request_params_max_tokens",), loses="what role the traffic shows"),
    Name("iteration_tokens", "histogram", ("iteration_tokens_total",), loses="tokens per engine step"),
    Name("kv_transfer_time", "histogram", ("nixl_xfer_time_seconds",), since=NIXL, loses="how long KV transfers take"),
    Name(
        "kv_post_time",
        "histogram",
        ("nixl_post_time_seconds",),
        since=NIXL,
        loses="how long posting a KV transfer takes",
    ),
    Name("kv_bytes", "histogram", ("nixl_bytes_transferred",), since=NIXL, loses="KV bytes and bandwidth"),
    Name("kv_descriptors", "histogram", ("nixl_num_descriptors",), since=NIXL, loses="descriptors per KV transfer"),
    Name(
        "computed_tokens",
        "histogram",
        ("request_prefill_kv_computed_tokens",),
        since="0.13.0",
        loses="how many prompt tokens each request computed itself",
    ),
    # -- counters --------------------------------------------------------------------------------------------------
    Name(
        "generation_tokens",
        "counter",
        ("generation_tokens_total",),
        loses="token throughput and the live token mean of TPOT",
    ),
    Name("prompt_tokens", "counter", ("prompt_tokens_total",), loses="prompt throughput"),
    Name(
        "prompt_tokens_by_source",
        "counter",
        ("prompt_tokens_by_source_total",),
        own_label="source",
        since="0.16.0",
        loses="whether decode recomputed prompts itself",
    ),
    Name(
        "prompt_tokens_cached", "counter", ("prompt_tokens_cached_total",), since="0.16.0", loses="cached prompt tokens"
    ),
    Name(
        "requests_finished",
        "counter",
        ("request_success_total",),
        own_label="finished_reason",
        loses="outcomes and request rate",
    ),
    Name("preemptions", "counter", ("num_preemptions_total",), loses="preemptions"),
    Name(
        "spec_drafts",
        "counter",
        ("spec_decode_num_drafts_total",),
        loses="acceptance (only servers that speculate have it)",
    ),
    Name("spec_draft_tokens", "counter", ("spec_decode_num_draft_tokens_total",), loses="acceptance rate"),
    Name(
        "spec_accepted_tokens",
        "counter",
        ("spec_decode_num_accepted_tokens_total",),
        loses="acceptance rate and length",
    ),
    Name(
        "spec_accepted_by_position",
        "counter",
        ("spec_decode_num_accepted_tokens_per_pos_total",),
        own_label="position",
        loses="acceptance per draft position",
    ),
    Name(
        "kv_failed_transfers", "counter", ("nixl_num_failed_transfers_total",), since=NIXL, loses="failed KV transfers"
    ),
    Name(
        "kv_failed_notifications",
        "counter",
        ("nixl_num_failed_notifications_total",),
        since=NIXL,
        loses="failed KV notifications",
    ),
    Name(
        "kv_expired",
        "counter",
        ("nixl_num_kv_expired_reqs_total",),
        since="0.16.0",
        loses="expired KV leases: not observable",
    ),
    Name(
        "kv_after_expiry",
        "counter",
        ("nixl_num_notifications_after_expiry_total",),
        since="0.32.0",
        loses="reads that ended after their lease: not observable",
    ),
    Name(
        "prefix_queries",
        "counter",
        ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
        loses="hit rate of the prefix cache",
    ),
    Name(
        "prefix_hits",
        "counter",
        ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
        loses="hit rate of the prefix cache",
    ),
    Name(
        "external_prefix_queries",
        "counter",
        ("external_prefix_cache_queries_total",),
        since="0.11.2",
        loses="tokens asked of the KV connector",
    ),
    Name(
        "external_prefix_hits",
        "counter",
        ("external_prefix_cache_hits_total",),
        since="0.11.2",
        loses="tokens promised by the KV connector",
    ),
    Name(
        "http_requests",
        "counter",
        ("http_requests_total",),
        own_label="status",
        per_engine=False,
        vllm=False,
        raw_labels=("handler", "method"),
        loses="HTTP answers by status",
    ),
    Name(
        "admission_rejections",
        "counter",
        ("admission_rejections_total",),
        own_label="reason",
        per_engine=False,
        since="0.32.0",
        loses="requests refused at admission",
    ),
    Name(
        "corrupted_requests",
        "counter",
        ("corrupted_requests_total",),
        since="0.11.2",
        loses="requests with NaN logits (only counted when the server is told to)",
    ),
    # -- gauges ----------------------------------------------------------------------------------------------------
    Name("running", "gauge", ("num_requests_running",), loses="requests being served"),
    Name("waiting", "gauge", ("num_requests_waiting",), loses="requests waiting"),
    Name(
        "waiting_by_reason",
        "gauge",
        ("num_requests_waiting_by_reason",),
        own_label="reason",
        since="0.20.0",
        loses="why requests wait (capacity or deferred)",
    ),
    Name(
        "kv_fetch",
        "gauge",
        ("num_requests_kv_fetch_by_stage",),
        own_label="stage",
        since="0.32.0",
        loses="in which stage KV fetches are; the deferred reason remains",
    ),
    Name("kv_usage", "gauge", ("kv_cache_usage_perc", "gpu_cache_usage_perc"), loses="how full the KV cache is"),
    Name(
        "sleep_state",
        "gauge",
        ("engine_sleep_state",),
        own_label="sleep_state",
        since="0.11.2",
        loses="whether the engine sleeps",
    ),
    Name(
        "process_start_time_seconds",
        "gauge",
        ("process_start_time_seconds",),
        per_engine=False,
        vllm=False,
        loses="start of the API server (multi-process pages never have it)",
    ),
    Name(
        "process_resident_memory_bytes",
        "gauge",
        ("process_resident_memory_bytes",),
        per_engine=False,
        vllm=False,
        loses="memory of the API server (multi-process pages never have it)",
    ),
    # -- facts in labels -------------------------------------------------------------------------------------------
    Name("cache_config", "info", ("cache_config_info",), loses="KV capacity in tokens"),
    *CONNECTOR_NAMES,
)
"""Every logical metric that pdwatch reads on a vLLM server's page."""


class SampleName(NamedTuple):
    """What a sample's name stands for: `rank` orders the candidates of one logical metric, lowest first."""

    name: Name
    rank: int
    family: str
    part: Part


def spellings(prefix: str) -> tuple[str, ...]:
    """What may stand before a bare vLLM name, in order of precedence.

    `prefix` is the configured one, or "": a relabelling puts it before `vllm:` or in its place.
    """
    return (*(prefix + spelling for spelling in SPELLINGS), prefix, *SPELLINGS) if prefix else SPELLINGS


def candidates(name: Name, prefix: str) -> Iterator[str]:
    """Yield the families that can hold `name`, best first, as a page spells them."""
    for alias in name.aliases:
        if not name.vllm:
            if prefix:
                yield prefix + alias
            yield alias
            continue
        for spelling in spellings(prefix):
            yield spelling + alias
            # Ray registers vLLM's counters without the ending that the Python client library adds.
            if name.kind == "counter" and spelling.endswith(RAY_SPELLINGS):
                yield spelling + alias.removesuffix("_total")


@lru_cache(maxsize=16)
def sample_names(prefix: str = "") -> Mapping[str, SampleName]:
    """Return every sample name that pdwatch reads -> what it stands for. The same object for the same prefix."""
    table: dict[str, SampleName] = {}
    for name in NAMES:
        table.update(samples_of(name, candidates(name, prefix)))
    return MappingProxyType(table)


def samples_of(name: Name, families: Iterable[str]) -> Iterator[tuple[str, SampleName]]:
    """Yield the sample names of the families that can hold `name`, best first."""
    for rank, family in enumerate(families):
        if name.kind == "histogram":
            yield f"{family}_bucket", SampleName(name, rank, family, "bucket")
            yield f"{family}_sum", SampleName(name, rank, family, "sum")
            yield f"{family}_count", SampleName(name, rank, family, "count")
        else:
            yield family, SampleName(name, rank, family, "value")


@lru_cache(maxsize=16)
def family_names(prefix: str = "") -> Mapping[str, SampleName]:
    """Return every name that a TYPE line can give to what pdwatch reads. The same object for the same prefix."""
    return families_of(sample_names(prefix))


def families_of(samples: Mapping[str, SampleName]) -> Mapping[str, SampleName]:
    """Return the names that TYPE lines can give to these samples; OpenMetrics leaves `_total` out."""
    table: dict[str, SampleName] = {}
    for sample in samples.values():
        table[sample.family] = sample
        if sample.name.kind == "counter":
            table.setdefault(sample.family.removesuffix("_total"), sample)
    return MappingProxyType(table)


def missing(names: Mapping[str, str]) -> tuple[Name, ...]:
    """Return the logical metrics that a page lacks and that it could have; `names` is its `Layout.names`."""
    return tuple(name for name in NAMES if name.key not in names and not name.optional)
