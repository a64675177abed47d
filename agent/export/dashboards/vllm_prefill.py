"""Board "Prefill" without pdwatch. In: the configuration. Out: a board."""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.frame import VLLM_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import FULL, NOTHING
from agent.export.dashboards.panels import About, Query, bars, distribution, lines
from agent.export.dashboards.prefill import ENGINE, POOL
from agent.export.dashboards.queries import DEPLOYMENT
from agent.export.dashboards.vllm_events import vllm_events
from agent.export.dashboards.vllm_judged import promised_lines
from agent.export.dashboards.vllm_queries import BY_ENGINE, BY_POOL, VLLM_DEPLOYMENT, Vllm, pools

WINDOW = "5m"
"""As the recording rules: enough requests for a mean."""


def vllm_prefill(config: Config) -> Board:
    """For sites without pdwatch."""
    prefill, decode = Vllm(config, "prefill"), Vllm(config, "decode")
    return Board(
        word="vllm-prefill",
        title="pdwatch rules / Prefill",
        description="Where does the time to the first token go? From vLLM's own metrics and the recording rules.",
        tag=VLLM_TAG,
        variables=[VLLM_DEPLOYMENT, pools("prefill", "prefill", "both"), pools("decode", "decode", "both")],
        events=vllm_events(),
        rows=[
            Row("Waterfall of the first token", _waterfall(prefill, decode)),
            Row("The prefill leg", _leg(config, prefill)),
            Row("Load", _load(prefill)),
            Row("Engines, and what goes wrong", _rest(prefill)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _parts(prefill: Vllm, decode: Vllm) -> list[Query]:
    def of(vllm: Vllm, histogram: str) -> str:
        return vllm.mean(histogram, (DEPLOYMENT,), WINDOW)

    queue, compute, leg = (of(prefill, name) for name in ("queue", "prefill", "e2e"))
    waits, first_step, ttft = (of(decode, name) for name in ("queue", "prefill", "ttft"))
    transfer = of(decode, "kv_transfer")
    parts = {
        "1 prefill: queue": queue,
        "2 prefill: compute": compute,
        "3 prefill: rest of the leg": f"clamp_min({leg} - {queue} - {compute}, 0)",
        "4 KV transfer (one handle)": f"(({transfer}) < ({waits}) or ({waits}))",
        "5 decode: waits otherwise": f"clamp_min({waits} - {transfer}, 0)",
        "6 decode: first step": first_step,
        "7 decode: rest until the token": f"clamp_min({ttft} - {waits} - {first_step}, 0)",
    }
    return [Query(expr, f"{name} {{{{deployment}}}}") for name, expr in parts.items()]


_READS = (
    "Mean seconds of each part, in the order in which a request goes through them, over five minutes. Failed requests "
    "can leave absurd queue times in vLLM's sums: pdwatch leaves those out, this board cannot."
)


def _waterfall(prefill: Vllm, decode: Vllm) -> list[Place]:
    parts = _parts(prefill, decode)
    now = bars(About("Waterfall now", _READS, unit="s"), *parts)
    over_time = lines(
        About("Waterfall over time", _READS + " The part that grew is the cause.", unit="s"), *parts, stacked=True
    )
    return [Place(now, 10, 9), Place(over_time, 14, 9)]


def _leg(config: Config, vllm: Vllm) -> list[Place]:
    ttft = lines(
        About(
            "First token of the leg",
            "Mean, and the 95th percentile interpolated in its bucket: the true value may lie anywhere in that bucket. "
            "pdwatch shows how wide that is.",
            unit="s",
        ),
        Query(vllm.recorded("pool:vllm_ttft_seconds:mean5m"), f"mean: {POOL}"),
        Query(vllm.recorded("pool:vllm_ttft_seconds:p95_5m"), f"p95: {POOL}"),
        Query(vllm.recorded("pool:vllm_e2e_seconds:mean5m"), f"whole leg, mean: {POOL}"),
        *promised_lines(config, ["ttft"], system=False),
    )
    heat = distribution(
        About("All first tokens of the leg", "Each cell one bucket of the servers; darker is more requests.", unit="s"),
        Query(vllm.buckets("ttft"), "{{le}}"),
    )
    return [Place(ttft), Place(heat)]


def _load(vllm: Vllm) -> list[Place]:
    waiting = lines(
        About(
            "Waiting and running",
            "By reason: capacity is load, deferred waits for something else.",
            runbooks=("PDWatchQueueBuildup",),
        ),
        Query(vllm.gauge("sum", "running"), f"running: {POOL}"),
        Query(
            vllm.gauge("sum", "waiting_by_reason", (*BY_POOL, "reason")), "waiting, {{reason}}: {{pool}} {{deployment}}"
        ),
    )
    tokens = lines(
        About("Prompt tokens per second", "What prefill works through."),
        Query(vllm.rate("prompt_tokens"), POOL),
    )
    kv = lines(
        About(
            "KV cache in use",
            "Prefill keeps a request's KV until decode has read it.",
            unit="percentunit",
            runbooks=("PDWatchKvPinned",),
        ),
        Query(vllm.gauge("max", "kv_usage"), f"fullest engine: {POOL}"),
        Query(vllm.gauge("avg", "kv_usage"), f"mean: {POOL}"),
        most=1,
        thresholds=FULL,
    )
    return [Place(waiting, 8), Place(tokens, 8), Place(kv, 8)]


def _rest(vllm: Vllm) -> list[Place]:
    engines = lines(
        About("First token by engine", "One line apart from the others is one engine's trouble.", unit="s"),
        Query(vllm.mean("ttft", BY_ENGINE, WINDOW), ENGINE),
    )
    expired = lines(
        About(
            "KV leases that ran out",
            "Such answers may be wrong although they count as successes.",
            empty=NOTHING,
            runbooks=("PDWatchKvExpired",),
        ),
        Query(vllm.increase("kv_expired", "$__rate_interval"), POOL),
        thresholds=((None, "green"), (1, "red")),
    )
    outcomes = lines(
        About(
            "Requests finished, by reason",
            "`error` and `abort` are the ones to look at.",
            unit="reqps",
            runbooks=("PDWatchErrorsHigh",),
        ),
        Query(
            vllm.rate("requests_finished", (*BY_POOL, "finished_reason")),
            "{{finished_reason}}: {{pool}} {{deployment}}",
        ),
        Query(vllm.rate("http_requests", (*BY_POOL, "status")), "HTTP {{status}}: {{pool}} {{deployment}}"),
    )
    return [Place(engines, 8), Place(expired, 8), Place(outcomes, 8)]
