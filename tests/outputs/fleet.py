"""A small fleet in text: two prefill requests and their decode legs on two engines, as a recording of three rounds.

What the tests of the outputs show is made from it, so that they see what the engine really gives and not what a test
thinks it gives.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.config import Config, Pool, Target
from agent.indicators.percentiles.recovered import FineHistogram
from agent.model import FailureObservation, Observation, PageObservation, ProcessesObservation, ProcessSample
from agent.outputs.discovered import DiscoveryFigures
from agent.outputs.live import Live
from agent.outputs.own import OwnFigures, ReloadFigures
from agent.outputs.samples import Snapshot
from agent.sources.discovery.follow import SourceWork
from agent.watch import Watch
from tests.pages import counter, gauge, histogram, page

BEGIN = 1_800_000_000.0
SECONDS = (0.01, 0.025, 0.05, 0.5, 2.5, 10.0)
TOKENS = (1.0, 100.0, 20000.0)

OWN = OwnFigures(
    version="1.2.3",
    python="3.11.0",
    started=BEGIN,
    cpu_seconds=1.5,
    resident_bytes=50_000_000,
    loop_lag_seconds=0.002,
    state_build_seconds=0.01,
    observations=9,
    ignored_observations=1,
    skipped_scrapes=2,
    errors={"observe": 1},
    exports={"ok": 5, "failed": 1},
    discovery=DiscoveryFigures(
        (("decode", 1),), (SourceWork("file_sd", ("decode",), failures=2, succeeded=BEGIN + 3),)
    ),
    reload=ReloadFigures(successful=True, succeeded=BEGIN),
)


def config(deployment: str | None = None) -> Config:
    """Two pools of one target each."""
    return Config(
        deployment=deployment,
        pools=(
            Pool(name="prefill", role="prefill", targets=(Target("prefill-0"),), gpus_per_target=4),
            Pool(name="decode", role="decode", targets=(Target("decode-0"),), gpus_per_target=8),
        ),
    )


def seconds(name: str, n: int, each: float, engine: str = "0") -> str:
    """A histogram of `n` observations of `each` seconds."""
    return histogram(f"vllm:{name}", {e: n if each <= e else 0 for e in SECONDS} | {float("inf"): n}, n * each, engine)


def prefill_page(n: int) -> str:
    """After `n` requests of 16000 prompt tokens."""
    return page(
        seconds("time_to_first_token_seconds", n, 1.5),
        seconds("e2e_request_latency_seconds", n, 1.6),
        seconds("request_queue_time_seconds", n, 0.3),
        seconds("request_prefill_time_seconds", n, 1.2),
        histogram("vllm:request_prompt_tokens", {e: n if e >= 16000 else 0 for e in TOKENS}, n * 16000.0),
        counter("vllm:prompt_tokens_total", n * 16000),
        counter("vllm:generation_tokens_total", n),
        counter("vllm:request_success_total", n, finished_reason="length"),
        counter("vllm:num_preemptions_total", 0),
        counter("vllm:nixl_num_kv_expired_reqs_total", 1 if n else 0),
        counter("vllm:admission_rejections_total", n, None, reason="queue_full"),
        counter("http_requests_total", n, None, handler="/v1/completions", method="POST", status="2xx"),
        gauge("vllm:num_requests_running", 1),
        gauge("vllm:num_requests_waiting", 2),
        gauge("vllm:kv_cache_usage_perc", 0.25),
    )


def decode_engine(engine: str, n: int) -> tuple[str, ...]:
    """After `n` requests of 21 tokens in 10 verify steps of 3 drafts each, of which one is accepted."""
    return (
        seconds("time_to_first_token_seconds", n, 0.4, engine),
        seconds("inter_token_latency_seconds", 10 * n, 0.04, engine),
        seconds("request_time_per_output_token_seconds", n, 0.02, engine),
        seconds("e2e_request_latency_seconds", n, 0.8, engine),
        seconds("request_queue_time_seconds", n, 0.1, engine),
        seconds("request_prefill_time_seconds", n, 0.01, engine),
        seconds("request_decode_time_seconds", n, 0.4, engine),
        seconds("nixl_xfer_time_seconds", 2 * n, 0.03, engine),
        seconds("nixl_post_time_seconds", 2 * n, 0.01, engine),
        histogram("vllm:nixl_bytes_transferred", {1e9: 2 * n}, n * 1e8, engine),
        histogram("vllm:request_prompt_tokens", {e: n if e >= 16000 else 0 for e in TOKENS}, n * 16000.0, engine),
        histogram("vllm:request_generation_tokens", {e: n if e >= 21 else 0 for e in TOKENS}, n * 21.0, engine),
        counter("vllm:prompt_tokens_total", n * 16000, engine),
        counter("vllm:prompt_tokens_by_source_total", n * 16, engine, source="local_compute"),
        counter("vllm:prompt_tokens_by_source_total", n * 15984, engine, source="external_kv_transfer"),
        counter("vllm:generation_tokens_total", n * 21, engine),
        counter("vllm:request_success_total", n, engine, finished_reason="stop"),
        counter("vllm:spec_decode_num_drafts_total", n * 11, engine),
        counter("vllm:spec_decode_num_draft_tokens_total", n * 33, engine),
        counter("vllm:spec_decode_num_accepted_tokens_total", n * 10, engine),
        *(
            counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", n * accepted, engine, position=position)
            for position, accepted in (("0", 7), ("1", 2), ("2", 1))
        ),
        counter("vllm:nixl_num_failed_transfers_total", 0, engine),
        counter("vllm:nixl_num_failed_notifications_total", 0, engine),
        counter("vllm:nixl_num_notifications_after_expiry_total", 0, engine),
        gauge("vllm:num_requests_running", 3, engine),
        gauge("vllm:num_requests_waiting", 1, engine),
        gauge("vllm:num_requests_waiting_by_reason", 0, engine, reason="capacity"),
        gauge("vllm:num_requests_waiting_by_reason", 1, engine, reason="deferred"),
        *(
            gauge("vllm:num_requests_kv_fetch_by_stage", value, engine, stage=stage)
            for stage, value in (("waiting_to_start", 0), ("in_progress", 1), ("completed_waiting", 0))
        ),
        gauge("vllm:kv_cache_usage_perc", 0.5 if engine == "0" else 0.75, engine),
    )


def decode_page(n: int) -> str:
    """Two engines, each after `n` requests."""
    return page(*decode_engine("0", n), *decode_engine("1", n))


def observations(rounds: int = 3) -> Iterator[Observation]:
    """Rounds of 5 s: two requests more on prefill, and one on each decode engine, in every round after the first."""
    for n in range(rounds):
        t = BEGIN + 5 * n
        yield PageObservation(t, "prefill-0", prefill_page(2 * n), 0.01)
        yield PageObservation(t + 0.5, "decode-0", decode_page(n), 0.02)
        core = ProcessSample(
            41, "VLLM::EngineCore_DP0", BEGIN - 60, 7, "engine_core", "0", 2**30, 2**29, 0, 2**29, 0, None, None
        )
        yield ProcessesObservation(t + 0.6, "decode-0", (core,))
        if not n:
            yield FailureObservation(t + 1, "decode-0", "timeout")


END = BEGIN + 12.0


def live(rounds: int = 3, deployment: str | None = None, now: float = END) -> Live:
    """The fleet as a running pdwatch has it; its clock stands still."""
    made = Live(Watch(config(deployment)), lambda: now, lambda: 100.0)
    for observation in observations(rounds):
        made.observe(observation)
    made.evaluate()
    return made


def snapshot(of: Live) -> Snapshot:
    """With figures of pdwatch itself that are the same in every run."""
    totals = {name: history.total for name, history in of.watch.windows.pools.items()}
    fine = FineHistogram((0.01, 0.02, 0.05), [1.0, 2.5, 0.5, 0.0], total=0.07)
    recovered = tuple(("decode", metric, fine) for metric in ("ttft", "tpot", "kv_transfer_time"))
    return Snapshot(of.state(), totals, {"decode": 4.0}, OWN, recovered)
