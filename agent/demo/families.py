"""The families of a vLLM 0.32 page, in page order. In: nothing. Out: their names, labels, edges and help texts.

A counter's or gauge's `key` is what the engines count under; one with a label of its own has one key per value,
`key/value`. Order and grouping are those of a real prefill/decode deployment with NIXL and speculative decoding.
"""

from __future__ import annotations

from dataclasses import dataclass

TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
ITL = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
ITERATION = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
TRANSFER = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
POST = (0.001, *TRANSFER)
TRANSFER_BYTES = tuple(float(1 << power) for power in range(11, 34, 2))
DESCRIPTORS = (
    10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 200.0, 400.0, 1000.0, 2000.0, 4000.0, 10000.0, 20000.0, 50000.0,
)  # fmt: skip
N = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
HTTP_FINE = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0,
)  # fmt: skip
HTTP_COARSE = (0.1, 0.5, 1.0)


def token_edges(max_model_len: int) -> tuple[float, ...]:
    """1-2-5 series up to the longest context: 200000 is the last edge for 262144."""
    edges = []
    power = 1
    while power <= max_model_len:
        edges += [float(digit * power) for digit in (1, 2, 5) if digit * power <= max_model_len]
        power *= 10
    return tuple(edges)


@dataclass(frozen=True, slots=True)
class Values:
    """A family of counters or gauges. `label` and `values`: its own label, if it has one.

    `engine_first`: children are listed engine by engine, else value by value. `set_by_step`: a gauge that has no
    sample on a multiprocess page before its engine's first step.
    """

    key: str
    name: str
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    engine_first: bool = False
    set_by_step: bool = False
    decode_only: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"{self.key}/{value}" for value in self.values) if self.label else (self.key,)


@dataclass(frozen=True, slots=True)
class Buckets:
    """A family of histograms. `edges` None: token counts, up to the longest context."""

    key: str
    name: str
    help: str
    edges: tuple[float, ...] | None


def speculation(depth: int) -> tuple[Values, ...]:
    """Counters of speculative decoding with `depth` draft tokens per step; without drafts a page has none."""
    if not depth:
        return ()
    positions = tuple(str(position) for position in range(depth))
    return (
        Values("drafts", "vllm:spec_decode_num_drafts", "Verify steps of requests"),
        Values("draft_tokens", "vllm:spec_decode_num_draft_tokens", "Tokens drafted"),
        Values("accepted", "vllm:spec_decode_num_accepted_tokens", "Draft tokens accepted"),
        Values(
            "accepted_at",
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Draft tokens accepted by position",
            "position",
            positions,
            engine_first=True,
        ),
    )


NIXL_HISTOGRAMS = (
    Buckets("transfer", "vllm:nixl_xfer_time_seconds", "Duration of KV transfers", TRANSFER),
    Buckets("post", "vllm:nixl_post_time_seconds", "Time to post KV transfers", POST),
    Buckets("transfer_bytes", "vllm:nixl_bytes_transferred", "Bytes of KV transfers", TRANSFER_BYTES),
    Buckets("descriptors", "vllm:nixl_num_descriptors", "Descriptors of KV transfers", DESCRIPTORS),
)
NIXL_COUNTERS = (
    Values("failed_transfers", "vllm:nixl_num_failed_transfers", "KV transfers failed"),
    Values("failed_notifications", "vllm:nixl_num_failed_notifications", "KV notifications failed"),
    Values("expired", "vllm:nixl_num_kv_expired_reqs", "Requests whose KV expired unread"),
    Values("after_expiry", "vllm:nixl_num_notifications_after_expiry", "Notifications for expired requests"),
)
ESTIMATES = tuple(
    Values(f"estimated_{what}", f"vllm:estimated_{what}_per_gpu", f"Estimated {what} per GPU")
    for what in ("flops", "read_bytes", "write_bytes")
)
GAUGES = (
    Values("running", "vllm:num_requests_running", "Requests running", set_by_step=True),
    Values("waiting", "vllm:num_requests_waiting", "Requests waiting", set_by_step=True),
    Values(
        "waiting_by_reason",
        "vllm:num_requests_waiting_by_reason",
        "Requests waiting by reason",
        "reason",
        ("capacity", "deferred"),
        set_by_step=True,
    ),
    Values(
        "kv_fetch",
        "vllm:num_requests_kv_fetch_by_stage",
        "Requests by stage of their KV fetch",
        "stage",
        ("waiting_to_start", "in_progress", "completed_waiting"),
        set_by_step=True,
        decode_only=True,
    ),
    Values(
        "sleep_state",
        "vllm:engine_sleep_state",
        "Sleep state of the engine",
        "sleep_state",
        ("awake", "weights_offloaded", "discard_all"),
    ),
    Values("kv_usage", "vllm:kv_cache_usage_perc", "KV cache in use, 0 to 1", set_by_step=True),
)
COUNTERS = (
    Values("prefix_queries", "vllm:prefix_cache_queries", "Tokens looked up in the prefix cache"),
    Values("prefix_hits", "vllm:prefix_cache_hits", "Tokens found in the prefix cache"),
    Values("external_queries", "vllm:external_prefix_cache_queries", "Tokens asked of the KV connector"),
    Values("external_hits", "vllm:external_prefix_cache_hits", "Tokens promised by the KV connector"),
    Values("mm_queries", "vllm:mm_cache_queries", "Items looked up in the multi-modal cache"),
    Values("mm_hits", "vllm:mm_cache_hits", "Items found in the multi-modal cache"),
    Values("preemptions", "vllm:num_preemptions", "Preemptions"),
    Values("prompt_tokens", "vllm:prompt_tokens", "Prompt tokens of completed prefills"),
    Values(
        "prompt_source",
        "vllm:prompt_tokens_by_source",
        "Prompt tokens by source",
        "source",
        ("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    Values("cached", "vllm:prompt_tokens_cached", "Prompt tokens that were cached"),
    Values(
        "cached_source",
        "vllm:prompt_tokens_cached_by_source",
        "Cached prompt tokens by source",
        "source",
        ("device", "host", "p2p", "disk", "external_unspecified"),
    ),
    Values("generated", "vllm:generation_tokens", "Tokens generated"),
    Values(
        "finished",
        "vllm:request_success",
        "Requests finished by reason",
        "finished_reason",
        ("stop", "length", "abort", "error", "repetition"),
    ),
)
REJECTION_REASONS = ("max_num_queued_reqs", "max_num_queued_tokens")
HISTOGRAMS = (
    Buckets("prompt_length", "vllm:request_prompt_tokens", "Prompt tokens per request", None),
    Buckets("completion_length", "vllm:request_generation_tokens", "Generated tokens per request", None),
    Buckets("iteration_tokens", "vllm:iteration_tokens_total", "Tokens per engine step", ITERATION),
    Buckets("most_generated", "vllm:request_max_num_generation_tokens", "Most tokens of one sample", None),
    Buckets("n", "vllm:request_params_n", "Parameter n", N),
    Buckets("max_tokens", "vllm:request_params_max_tokens", "Parameter max_tokens", None),
    Buckets("ttft", "vllm:time_to_first_token_seconds", "Time to first token", TTFT),
    Buckets("itl", "vllm:inter_token_latency_seconds", "Time between outputs", ITL),
    Buckets("tpot", "vllm:request_time_per_output_token_seconds", "Time per output token by request", ITL),
    Buckets("e2e", "vllm:e2e_request_latency_seconds", "Time of whole requests", LATENCY),
    Buckets("queue", "vllm:request_queue_time_seconds", "Time until scheduled", LATENCY),
    Buckets("inference", "vllm:request_inference_time_seconds", "Time from scheduled to last token", LATENCY),
    Buckets("prefill", "vllm:request_prefill_time_seconds", "Time from scheduled to first token", LATENCY),
    Buckets("decode", "vllm:request_decode_time_seconds", "Time from first to last token", LATENCY),
    Buckets("request_preemptions", "vllm:request_num_preemptions", "Preemptions per request", PREEMPTIONS),
    Buckets("computed_tokens", "vllm:request_prefill_kv_computed_tokens", "Prompt tokens computed", None),
)
CACHE_CONFIG = "vllm:cache_config_info"
CACHE_CONFIG_LABELS = {
    "_block_size_resolved": "True",
    "cache_dtype": "fp8",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "True",
}
"""The fields that are the same on every engine; sizes and the engine are added."""
