"""The table of names against the nine vLLM releases that were measured, and against itself."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent.reading.names import NAMES, Name, candidates, missing, sample_names
from tests.reading.reads import read

VERSIONS = ("0.9.2", "0.10.2", "0.11.2", "0.13.0", "0.16.0", "0.20.0", "0.26.0", "0.29.0", "0.32.0")

SINCE_0_10_2 = {"itl": "vllm:inter_token_latency_seconds"}
SINCE_0_11_2 = SINCE_0_10_2 | {
    "tpot": "vllm:request_time_per_output_token_seconds",
    "kv_transfer_time": "vllm:nixl_xfer_time_seconds",
    "kv_post_time": "vllm:nixl_post_time_seconds",
    "kv_bytes": "vllm:nixl_bytes_transferred",
    "kv_descriptors": "vllm:nixl_num_descriptors",
    "kv_failed_transfers": "vllm:nixl_num_failed_transfers_total",
    "kv_failed_notifications": "vllm:nixl_num_failed_notifications_total",
    "external_prefix_queries": "vllm:external_prefix_cache_queries_total",
    "external_prefix_hits": "vllm:external_prefix_cache_hits_total",
    "sleep_state": "vllm:engine_sleep_state",
    "corrupted_requests": "vllm:corrupted_requests_total",
}
SINCE_0_13_0 = SINCE_0_11_2 | {"computed_tokens": "vllm:request_prefill_kv_computed_tokens"}
SINCE_0_16_0 = SINCE_0_13_0 | {
    "prompt_tokens_by_source": "vllm:prompt_tokens_by_source_total",
    "prompt_tokens_cached": "vllm:prompt_tokens_cached_total",
    "kv_expired": "vllm:nixl_num_kv_expired_reqs_total",
}
SINCE_0_20_0 = SINCE_0_16_0 | {"waiting_by_reason": "vllm:num_requests_waiting_by_reason"}
SINCE_0_20_0 |= {
    "hf3fs_load_time": "vllm:hf3fs_load_duration_seconds",
    "hf3fs_failed_loads": "vllm:hf3fs_num_failed_load_total",
    "hf3fs_failed_saves": "vllm:hf3fs_num_failed_save_total",
}
SINCE_0_26_0 = SINCE_0_20_0 | {
    "mooncake_load_time": "vllm:mooncake_store_operation_time_seconds",
    "mooncake_bytes": "vllm:mooncake_store_operation_bytes_total",
    "mooncake_failed_keys": "vllm:mooncake_store_operation_failed_keys_total",
    "offload_load_size": "vllm:kv_offload_load_size",
    "offload_load_bytes": "vllm:kv_offload_load_bytes_total",
    "offload_load_seconds": "vllm:kv_offload_load_time_total",
    "offload_store_bytes": "vllm:kv_offload_store_bytes_total",
    "offload_allocation_failures": "vllm:kv_offload_allocation_failure_total",
}
SINCE_0_32_0 = SINCE_0_26_0 | {
    "kv_fetch": "vllm:num_requests_kv_fetch_by_stage",
    "kv_after_expiry": "vllm:nixl_num_notifications_after_expiry_total",
    "admission_rejections": "vllm:admission_rejections_total",
}
ALWAYS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:time_per_output_token_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "prefill": "vllm:request_prefill_time_seconds",
    "decode": "vllm:request_decode_time_seconds",
    "inference": "vllm:request_inference_time_seconds",
    "prompt_tokens_histogram": "vllm:request_prompt_tokens",
    "generation_tokens_histogram": "vllm:request_generation_tokens",
    "max_tokens": "vllm:request_params_max_tokens",
    "iteration_tokens": "vllm:iteration_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "requests_finished": "vllm:request_success_total",
    "preemptions": "vllm:num_preemptions_total",
    "spec_drafts": "vllm:spec_decode_num_drafts_total",
    "spec_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "spec_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "spec_accepted_by_position": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_usage": "vllm:kv_cache_usage_perc",
    "cache_config": "vllm:cache_config_info",
    "http_requests": "http_requests_total",
    "process_start_time_seconds": "process_start_time_seconds",
    "process_resident_memory_bytes": "process_resident_memory_bytes",
}
EXPECTED = {
    "0.9.2": ALWAYS,
    "0.10.2": ALWAYS | SINCE_0_10_2,
    "0.11.2": ALWAYS | SINCE_0_11_2,
    "0.13.0": ALWAYS | SINCE_0_13_0,
    "0.16.0": ALWAYS | SINCE_0_16_0,
    "0.20.0": ALWAYS | SINCE_0_20_0,
    "0.26.0": ALWAYS | SINCE_0_26_0,
    "0.29.0": ALWAYS | SINCE_0_26_0,
    "0.32.0": ALWAYS | SINCE_0_32_0,
}


def place(version: str) -> int:
    return VERSIONS.index(version.removeprefix("<="))


def page_of(version: str, facts: list[dict[str, Any]]) -> str:
    """A page with every family of that release, hidden ones too, each with one sample."""
    lines = []
    for fact in facts:
        since, until = str(fact["since"]), fact["until"]
        if place(since) > place(version) or (until is not None and place(str(until)) < place(version)):
            continue
        labels: list[str] = fact["labels"]
        name, kind = str(fact["name"]), str(fact["type"])
        given = [f'{label}="0"' for label in labels if label.isidentifier() and label != "le"]
        braces = "{" + ",".join(given) + "}" if given else ""
        lines.append(f"# TYPE {name} {kind}")
        if kind == "histogram":
            bucket = "{" + ",".join([*given, 'le="+Inf"']) + "}"
            lines += [f"{name}_bucket{bucket} 1.0", f"{name}_sum{braces} 1.0", f"{name}_count{braces} 1.0"]
        elif kind == "summary":
            lines += [f"{name}_sum{braces} 1.0", f"{name}_count{braces} 1.0"]
        else:
            lines.append(f"{name}{braces} 1.0")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_measured_release_gives_exactly_the_names_written_down_for_it(shared_dir: Path, version: str):
    facts = json.loads((shared_dir / "facts" / "vllm-metrics.json").read_text())
    reading = read(page_of(version, facts))
    assert dict(reading.layout.names) == EXPECTED[version]
    assert reading.problems == ()


@pytest.mark.parametrize("name", [name for name in NAMES if "lmcache" not in name.key], ids=lambda name: name.key)
def test_since_is_the_first_measured_release_that_has_the_metric(name: Name):
    assert name.since == next(version for version in VERSIONS if name.key in EXPECTED[version])


def test_every_logical_metric_has_a_key_of_its_own_and_says_what_is_lost_without_it():
    assert [key for key, uses in Counter(name.key for name in NAMES).items() if uses > 1] == []
    assert all(name.loses for name in NAMES)


def test_no_sample_name_stands_for_two_metrics():
    names = [family for name in NAMES for family in dict.fromkeys(candidates(name, "acme_"))]
    assert [family for family, uses in Counter(names).items() if uses > 1] == []


def test_the_table_is_built_once_for_each_prefix():
    assert sample_names("acme_") is sample_names("acme_")
    assert "acme_vllm:num_requests_running" in sample_names("acme_")
    assert "acme_vllm:num_requests_running" not in sample_names()


def test_what_a_page_lacks_is_said_by_name():
    lacks = {name.key for name in missing(read(page_with_ttft_alone()).layout.names)}
    assert lacks == {name.key for name in NAMES if not name.optional} - {"ttft"}


def page_with_ttft_alone() -> str:
    family = "vllm:time_to_first_token_seconds"
    return f'# TYPE {family} histogram\n{family}_bucket{{le="+Inf"}} 0.0\n{family}_sum 0.0\n{family}_count 0.0\n'
