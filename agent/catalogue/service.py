"""Metrics of the promise and of the pools over the window. In: nothing. Out: rows."""

from __future__ import annotations

from collections.abc import Iterator

from agent.catalogue.metric import ENGINE, LATENCIES, OBJECTIVE, POOL, Row, percentile_rows


def system_rows() -> Iterator[Row]:
    """The deployment as a whole, and what is wrong in it."""
    yield "window_seconds", "gauge", "seconds", (), "How far back windowed values look."
    yield (
        "problem",
        "gauge",
        "",
        ("code", "severity", "scope", "target", "engine", "process"),
        ("1 for each problem that stands; scope is a pool or system."),
    )
    yield (
        "cause_info",
        "info",
        "",
        (*OBJECTIVE, "code", "text"),
        "Why an objective is broken, while it is pending or firing: one series each, its text with numbers of now.",
    )
    yield from percentile_rows("system_ttft", "time to first token as a user sees it", ())
    yield "system_ttft_source", "gauge", "", ("source",), "1 for where the TTFT is from: router, traces or composed."
    yield "system_ttft_prefill_leg_mean_seconds", "gauge", "seconds", (), "The prefill leg's part of the composed TTFT."
    yield (
        "system_ttft_decode_leg_mean_seconds",
        "gauge",
        "seconds",
        (),
        "The KV and decode leg's part of the composed TTFT.",
    )
    yield "system_requests_per_second", "gauge", "requests/s", (), "Requests finished for users."
    yield (
        "system_tokens_per_second_per_gpu",
        "gauge",
        "tokens/s",
        (),
        ("Prompt tokens of the prefill pools and generated tokens of the decode pools, over all GPUs."),
    )
    yield (
        "system_goodput_tokens_per_second_per_gpu",
        "gauge",
        "tokens/s",
        (),
        "The same, of requests within the objectives.",
    )
    yield "system_objectives_met_ratio", "gauge", "ratio", (), "Share of requests within the objectives."
    yield (
        "system_contract_share_low_ratio",
        "gauge",
        "ratio",
        (),
        "At least this share of prompts is of contract length.",
    )
    yield (
        "system_contract_share_high_ratio",
        "gauge",
        "ratio",
        (),
        "At most this share of prompts is of contract length.",
    )
    yield "system_legs", "gauge", "requests", ("leg",), "Prefill legs ended and decode legs begun in the window."


def objectives_rows() -> Iterator[Row]:
    """Each promise and its judgement."""
    unit = "in the unit of its target"
    yield "target", "gauge", "", OBJECTIVE, "What is promised: seconds, a share, or tokens per verify step."
    yield "value", "gauge", "", OBJECTIVE, f"What is judged, over the objective's own window, {unit}."
    yield "value_low", "gauge", "", OBJECTIVE, f"Never below this, {unit}."
    yield "value_high", "gauge", "", OBJECTIVE, f"Never above this; absent where nothing bounds it, {unit}."
    yield "observations", "gauge", "", OBJECTIVE, "Observations that the judgement rests on."
    yield "verdict", "gauge", "", (*OBJECTIVE, "verdict"), "1 for the verdict now, whatever the hold times say."
    yield "status", "gauge", "", (*OBJECTIVE, "status"), "1 for the status now: ok, pending, firing or resolved."


def pool_rows() -> Iterator[Row]:
    """Each pool over the window, and its load now."""
    yield "info", "info", "", ("pool", "role"), "Role of the pool."
    yield "gpus", "gauge", "", POOL, "GPUs of the pool, as configured."
    for word, says in LATENCIES.values():
        yield from percentile_rows(word, says, POOL)
    yield (
        "tpot_token_mean_seconds",
        "gauge",
        "seconds",
        POOL,
        ("Time per output token as a mean over tokens, requests in flight included."),
    )
    yield "tpot_mix_difference_seconds", "gauge", "seconds", POOL, "Mean TPOT over requests minus mean over tokens."
    yield "requests_per_second", "gauge", "requests/s", POOL, "Requests finished, whatever the reason."
    yield "prompt_tokens_per_second", "gauge", "tokens/s", POOL, "Prompt tokens processed."
    yield "generation_tokens_per_second", "gauge", "tokens/s", POOL, "Tokens generated."
    yield "generation_tokens_per_second_per_gpu", "gauge", "tokens/s", POOL, "Tokens generated, per GPU."
    yield "tokens_per_second_per_user", "gauge", "tokens/s", POOL, "What one user sees: 1 / mean TPOT."
    yield "acceptance_ratio", "gauge", "ratio", POOL, "Draft tokens accepted, padding left out."
    yield (
        "acceptance_length_tokens",
        "gauge",
        "tokens",
        POOL,
        "Tokens per verify step, padding left out: 1 + accepted / drafts.",
    )
    yield (
        "acceptance_by_position_ratio",
        "gauge",
        "ratio",
        ("pool", "position"),
        ("Share of steps that accepted the draft at this position."),
    )
    yield (
        "conditional_acceptance_ratio",
        "gauge",
        "ratio",
        ("pool", "position"),
        ("The same among the steps that accepted all positions before it."),
    )
    yield "kv_bytes_per_second", "gauge", "bytes/s", POOL, "KV bytes moved, over the window's real time."
    yield "kv_handle_bytes_per_second", "gauge", "bytes/s", POOL, "Mean throughput of one KV transfer handle."
    yield "requests_running", "gauge", "requests", POOL, "Requests in the engines' batches now."
    yield "requests_waiting", "gauge", "requests", POOL, "Requests waiting now."
    yield (
        "requests_waiting_by_reason",
        "gauge",
        "requests",
        ("pool", "reason"),
        "Requests waiting now: capacity or deferred.",
    )
    yield (
        "requests_kv_fetch",
        "gauge",
        "requests",
        ("pool", "stage"),
        "Requests whose KV is being fetched now, by stage.",
    )
    yield "kv_usage_max_ratio", "gauge", "ratio", POOL, "KV cache in use now, fullest engine."
    yield "kv_usage_mean_ratio", "gauge", "ratio", POOL, "KV cache in use now, mean over engines."


def engine_rows() -> Iterator[Row]:
    """Each engine over the window, and its load now."""
    yield "ttft_mean_seconds", "gauge", "seconds", ENGINE, "Mean time to first token."
    yield "tpot_mean_seconds", "gauge", "seconds", ENGINE, "Mean time per output token, over requests."
    yield "tpot_token_mean_seconds", "gauge", "seconds", ENGINE, "Mean time per output token, over tokens."
    yield "itl_mean_seconds", "gauge", "seconds", ENGINE, "Mean step time."
    yield "acceptance_length_tokens", "gauge", "tokens", ENGINE, "Tokens per verify step, padding left out."
    yield "generation_tokens_per_second", "gauge", "tokens/s", ENGINE, "Tokens generated."
    yield "requests_running", "gauge", "requests", ENGINE, "Requests in the batch now."
    yield "requests_waiting", "gauge", "requests", ENGINE, "Requests waiting now."
    yield "kv_usage_ratio", "gauge", "ratio", ENGINE, "KV cache in use now."
