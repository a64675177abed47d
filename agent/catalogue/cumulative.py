"""Counters and histograms of the pools, which only grow while pdwatch runs. In: nothing. Out: rows."""

from __future__ import annotations

from collections.abc import Iterator

from agent.catalogue.metric import HISTOGRAMS, LATENCIES, POOL, RECOVERED, Row


def cumulative_rows() -> Iterator[Row]:
    """Histograms and counters of the pools, and of what is recovered from them."""
    for latency in HISTOGRAMS:
        word, says = LATENCIES[latency]
        text = f"All since pdwatch began, edges as on the servers' pages: {says}."
        yield f"{word}_seconds", "histogram", "seconds", POOL, text
    for latency in RECOVERED:
        word, says = LATENCIES[latency]
        text = f"Recovered from each scrape's sums, fine edges with every objective's target among them: {says}."
        yield f"recovered_{word}_seconds", "histogram", "seconds", POOL, text
    yield "requests_finished_total", "counter", "requests", ("pool", "reason"), "Requests finished, by reason."
    yield "prompt_tokens_total", "counter", "tokens", POOL, "Prompt tokens processed."
    yield "generation_tokens_total", "counter", "tokens", POOL, "Tokens generated."
    yield "preemptions_total", "counter", "requests", POOL, "Requests preempted."
    yield "drafts_total", "counter", "", POOL, "Verify steps with drafts, padding included."
    yield "draft_tokens_total", "counter", "tokens", POOL, "Tokens drafted, padding included."
    yield "accepted_tokens_total", "counter", "tokens", POOL, "Draft tokens accepted."
    yield (
        "accepted_tokens_by_position_total",
        "counter",
        "tokens",
        ("pool", "position"),
        "Draft tokens accepted, by position.",
    )
    yield "padded_drafts_total", "counter", "", POOL, "Drafts that only padded the first step after a KV transfer."
    yield "kv_transfers_total", "counter", "", POOL, "KV transfer handles completed (several per request with TP > 1)."
    yield "kv_transferred_bytes_total", "counter", "bytes", POOL, "KV bytes moved."
    yield "kv_failed_transfers_total", "counter", "", POOL, "KV transfers that failed."
    yield "kv_failed_notifications_total", "counter", "", POOL, "KV notifications that failed."
    yield "kv_expired_total", "counter", "requests", POOL, "KV leases that ran out before decode had read them."
    yield "kv_after_expiry_total", "counter", "requests", POOL, "Reads that ended after their lease."
    yield "recomputed_tokens_total", "counter", "tokens", POOL, "Prompt tokens that a decode pool computed itself."
    yield (
        "http_responses_total",
        "counter",
        "requests",
        ("pool", "status"),
        "HTTP answers of the servers, by class of status.",
    )
    yield "admission_rejected_total", "counter", "requests", POOL, "Requests refused at admission."
