"""vLLM's metrics as the rules name them. In: nothing. Out: logical name -> names of the series, newest first.

Exports do not know the reading; a test holds these names and their order against the ones that pages are read by. Two
aliases are never added: per series the first that exists is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

HISTOGRAMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ttft": ("time_to_first_token_seconds",),
        "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "tpot": ("request_time_per_output_token_seconds",),
        "e2e": ("e2e_request_latency_seconds",),
        "queue": ("request_queue_time_seconds",),
        "prefill": ("request_prefill_time_seconds",),
        "decode": ("request_decode_time_seconds",),
        "kv_transfer": ("nixl_xfer_time_seconds",),
        "generation_tokens_histogram": ("request_generation_tokens",),
        "prompt_tokens_histogram": ("request_prompt_tokens",),
    }
)
COUNTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "generation_tokens": ("generation_tokens_total",),
        "prompt_tokens": ("prompt_tokens_total",),
        "prompt_tokens_by_source": ("prompt_tokens_by_source_total",),
        "requests_finished": ("request_success_total",),
        "spec_drafts": ("spec_decode_num_drafts_total",),
        "spec_draft_tokens": ("spec_decode_num_draft_tokens_total",),
        "spec_accepted_tokens": ("spec_decode_num_accepted_tokens_total",),
        "spec_accepted_by_position": ("spec_decode_num_accepted_tokens_per_pos_total",),
        "kv_failed_transfers": ("nixl_num_failed_transfers_total",),
        "kv_expired": ("nixl_num_kv_expired_reqs_total",),
        "admission_rejections": ("admission_rejections_total",),
    }
)
GAUGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "running": ("num_requests_running",),
        "waiting": ("num_requests_waiting",),
        "waiting_by_reason": ("num_requests_waiting_by_reason",),
        "kv_fetch": ("num_requests_kv_fetch_by_stage",),
        "kv_usage": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    }
)
HTTP_REQUESTS = "http_requests_total"
"""The one family that is not vLLM's own and has no prefix."""

_TTFT = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560"
_ITL = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80"
_LATENCY = "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"
_NIXL = "0.005 0.01 0.025 0.05 0.075 0.1 0.2 0.3 0.5 0.75 1 5"

EDGES: Mapping[str, tuple[Decimal, ...]] = MappingProxyType(
    {
        indicator: tuple(Decimal(edge) for edge in edges.split())
        for indicator, edges in {
            "ttft": _TTFT,
            "itl": _ITL,
            "tpot": _ITL,
            "e2e": _LATENCY,
            "queue": _LATENCY,
            "prefill": _LATENCY,
            "decode": _LATENCY,
            "kv_transfer": _NIXL,
        }.items()
    }
)
"""Finite bucket edges, seconds, that vLLM has unless `--custom-histogram-buckets` says otherwise."""
