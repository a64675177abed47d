"""What a decode engine counts per request: at its first token, at its end, at a failure. In: the request. Out: metrics.

A failed KV load ends a request without a token. vLLM then has no scheduled time and takes 0 for it, so minus the host's
uptime lands in the queue time and plus the uptime in prefill and inference time; the sums stay wrong until a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.demo.metrics import EngineMetrics
from agent.demo.requests import Request

if TYPE_CHECKING:
    from agent.demo.decode import DecodeEngine


def count_first_token(engine: DecodeEngine, t: float, request: Request) -> None:
    """All prompt tokens came from prefill; the drafts of this first step were counted with the step."""
    counters, prompt = engine.metrics.counters, request.prompt_tokens
    counters["prompt_tokens"] += prompt
    counters["prompt_source/external_kv_transfer"] += prompt
    counters["cached"] += prompt
    counters["generated"] += 1
    engine.metrics.histograms["ttft"].observe(t - request.decode_arrived)


def count_end(engine: DecodeEngine, t: float, request: Request) -> None:
    """A request ends with its last token."""
    first = request.first_token
    assert first is not None
    _count_lengths(engine, request, request.completion_tokens)
    histograms = engine.metrics.histograms
    histograms["tpot"].observe(request.tpot_seconds or 0.0)
    histograms["e2e"].observe(t - request.decode_arrived)
    histograms["queue"].observe(request.decode_scheduled - request.decode_queued)
    histograms["inference"].observe(t - request.decode_scheduled)
    histograms["prefill"].observe(first - request.decode_scheduled)
    histograms["decode"].observe(t - first)
    engine.metrics.counters[f"finished/{request.reason}"] += 1
    engine.server.http.answered(t - request.decode_arrived, 5 * request.prompt_tokens, 0)


def count_failure(engine: DecodeEngine, t: float, request: Request, began: float) -> None:
    """A request ends without a token. `began`: when the simulation began, for the host's uptime."""
    _count_lengths(engine, request, 0)
    histograms = engine.metrics.histograms
    uptime = engine.server.uptime_seconds(t, began)
    histograms["ttft"].observe(t - request.decode_arrived)
    histograms["tpot"].observe(0.0)
    histograms["e2e"].observe(t - request.decode_arrived)
    histograms["queue"].observe(-engine.server.uptime_seconds(request.decode_queued, began))
    histograms["inference"].observe(uptime)
    histograms["prefill"].observe(uptime)
    histograms["decode"].observe(0.0)
    engine.metrics.counters["finished/error"] += 1
    engine.server.http.answered(t - request.decode_arrived, 5 * request.prompt_tokens, 0)


def _count_lengths(engine: DecodeEngine, request: Request, generated: int) -> None:
    metrics: EngineMetrics = engine.metrics
    histograms = metrics.histograms
    histograms["prompt_length"].observe(request.prompt_tokens)
    histograms["completion_length"].observe(generated)
    histograms["most_generated"].observe(generated)
    histograms["n"].observe(1)
    histograms["max_tokens"].observe(engine.server.topology.traffic.max_tokens)
    histograms["request_preemptions"].observe(0)
    histograms["computed_tokens"].observe(request.prompt_tokens - request.cached_tokens)
