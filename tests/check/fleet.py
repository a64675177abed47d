"""Answers of targets by hand: what `check` gets to see, without any network.

In: target -> its pages. Out: a report, or the findings of one code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.check import Answer, Finding, Report, check
from agent.config import Config, Objective, Pool, Target
from agent.model import FailureObservation, PageObservation
from tests.pages import counter, gauge, histogram, page

NOW = 1_800_000_000.0
APART_SECONDS = 5.0
TTFT = (0.1, 0.25, 0.5, 0.75, 1.0, 2.5)
PER_TOKEN = (0.01, 0.025, 0.05)


def vllm_page(
    requests: float = 1000.0,
    *,
    tokens_each: float = 50.0,
    engines: int = 1,
    started: float | None = NOW - 10_000.0,
    within_edge: float = 0.5,
    tpot_seconds: float = 0.017,
    without: Sequence[str] = (),
    kv_tokens: int = 600_000,
    external: bool = True,
) -> str:
    """A page of `requests` finished requests per engine; half of TTFT below 250 ms, every TPOT in (10 ms, 25 ms]."""
    families: list[str] = []
    for rank in range(engines):
        engine = str(rank)
        one_token = requests if tokens_each <= 1 else 0.0
        ttft = {edge: requests * (within_edge if edge <= 0.25 else 1.0) for edge in TTFT}
        tpot = {edge: one_token if edge <= 0.01 else requests for edge in PER_TOKEN}
        steps = requests * max(0.0, tokens_each - 1)
        source = "external_kv_transfer" if external else "local_compute"
        families += [
            histogram("vllm:time_to_first_token_seconds", ttft, 0.3 * requests, engine),
            histogram(
                "vllm:request_time_per_output_token_seconds", tpot, tpot_seconds * (requests - one_token), engine
            ),
            histogram("vllm:inter_token_latency_seconds", {0.025: steps}, 0.017 * steps, engine),
            histogram("vllm:e2e_request_latency_seconds", {2.0: requests}, 1.1 * requests, engine),
            histogram("vllm:request_queue_time_seconds", {0.3: requests}, 0.1 * requests, engine),
            histogram("vllm:request_prefill_time_seconds", {0.3: requests}, 0.1 * requests, engine),
            histogram(
                "vllm:request_generation_tokens", {1.0: one_token, 100.0: requests}, tokens_each * requests, engine
            ),
            histogram("vllm:request_prompt_tokens", {16383.0: 0.0, 262144.0: requests}, 20000.0 * requests, engine),
            histogram("vllm:nixl_xfer_time_seconds", {0.1: requests}, 0.05 * requests, engine),
            counter("vllm:generation_tokens_total", tokens_each * requests, engine),
            counter("vllm:prompt_tokens_total", 20000.0 * requests, engine),
            counter("vllm:prompt_tokens_by_source_total", 20000.0 * requests, engine, source=source),
            counter("vllm:request_success_total", requests, engine, finished_reason="stop"),
            counter("vllm:nixl_num_kv_expired_reqs_total", 0.0, engine),
            gauge("vllm:kv_cache_usage_perc", 0.4, engine),
            gauge("vllm:num_requests_waiting_by_reason", 0.0, engine, reason="capacity"),
            gauge("vllm:cache_config_info", 1.0, engine, kv_cache_size_tokens=str(kv_tokens), num_gpu_blocks="1"),
        ]
    if started is not None:
        families.append(gauge("process_start_time_seconds", started, None))
    return page(*(family for family in families if not any(name in family for name in without)))


def prefill_page(requests: float = 1000.0, *, started: float | None = NOW - 20_000.0) -> str:
    """A page of prefill legs: one token each, and prompts computed where they are."""
    return vllm_page(requests, tokens_each=1.0, started=started, external=False)


def configured(
    targets: Mapping[str, Sequence[str]], objectives: Sequence[Objective] | None = None, **settings: object
) -> Config:
    """Pools by name, whose role is their name's first word; a deployment that pages nobody and wants no history."""
    pools = tuple(
        Pool(
            name=name,
            role="prefill" if name.startswith("prefill") else "decode",
            gpus_per_target=8,
            targets=tuple(Target(target, f"http://{target}:8000/metrics") for target in names),
        )
        for name, names in targets.items()
    )
    given = {"objectives": tuple(objectives)} if objectives is not None else {}
    return Config(deployment="test", pools=pools, **given, **settings)  # type: ignore[arg-type]


def answer(target: str, *pages: str | None, version: str | None = None, took_seconds: float = 0.01) -> Answer:
    """A target's pages, `APART_SECONDS` apart, the last one now; None stands for a fetch that was refused."""
    first = NOW - APART_SECONDS * (len(pages) - 1)
    return Answer(
        target,
        tuple(
            FailureObservation(first + APART_SECONDS * i, target, "refused", "connection refused")
            if text is None
            else PageObservation(first + APART_SECONDS * i, target, text, took_seconds)
            for i, text in enumerate(pages)
        ),
        version,
    )


def checked(config: Config, *answers: Answer) -> Report:
    return check(config, answers, is_readable=lambda _: True)


def only(report: Report, code: str) -> list[Finding]:
    """The findings of one code."""
    return [finding for finding in report.findings if finding.code == code]


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]
