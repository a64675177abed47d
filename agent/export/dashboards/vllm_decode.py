"""Board "Decode" without pdwatch. In: the configuration. Out: a board."""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.decode import RIGHT_AXIS, SLOW_RANK
from agent.export.dashboards.frame import VLLM_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import FULL, NOTHING
from agent.export.dashboards.panels import About, Query, distribution, lines, numbers
from agent.export.dashboards.prefill import ENGINE, POOL
from agent.export.dashboards.vllm_events import vllm_events
from agent.export.dashboards.vllm_judged import judged_edges, promised_lines
from agent.export.dashboards.vllm_queries import BY_ENGINE, BY_POOL, VLLM_DEPLOYMENT, Vllm, pools

TPOT, ITL = "pool:vllm_tpot_seconds:mean5m", "pool:vllm_itl_seconds:mean5m"
LENGTH, RANK = "pool:vllm_spec_acceptance_length:tokens5m", "engine:vllm_itl_seconds:mean5m"


def vllm_decode(config: Config) -> Board:
    """For sites without pdwatch."""
    vllm = Vllm(config, "decode")
    return Board(
        word="vllm-decode",
        title="pdwatch rules / Decode",
        description="How long does a token take, and why? From vLLM's own metrics and the recording rules.",
        tag=VLLM_TAG,
        variables=[VLLM_DEPLOYMENT, pools("decode", "decode", "both")],
        events=vllm_events(),
        rows=[
            Row("Time per output token", _tpot(config, vllm)),
            Row("Why: steps and acceptance", _steps(vllm)),
            Row("Why: load", _load(vllm)),
            Row("What goes wrong", _wrong(vllm)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _tpot(config: Config, vllm: Vllm) -> list[Place]:
    tile = numbers(
        About("Now", "Mean over requests, against the promise.", unit="s"),
        Query(vllm.recorded(TPOT), POOL),
        thresholds=judged_edges(config, ["tpot", "tpot_token"], system=False),
    )
    tpot = lines(
        About(
            "Time per token",
            "Mean, and the 95th percentile interpolated in its bucket. vLLM's lowest buckets are 10, 25 and 50 ms wide "
            "apart, so the percentile of a fast pool is a guess; the mean is exact.",
            unit="s",
            runbooks=("PDWatchObjectiveBreached",),
        ),
        Query(vllm.recorded(TPOT), f"mean: {POOL}"),
        Query(vllm.recorded("pool:vllm_tpot_seconds:p95_5m"), f"p95: {POOL}"),
        *promised_lines(config, ["tpot", "tpot_token"], system=False),
    )
    heat = distribution(
        About(
            "All times per token",
            "Each cell one bucket of the servers. Requests of one token stand in the lowest: vLLM records 0 for them.",
            unit="s",
        ),
        Query(vllm.buckets("tpot"), "{{le}}"),
    )
    return [Place(tile, 4), Place(tpot, 10), Place(heat, 10)]


def _steps(vllm: Vllm) -> list[Place]:
    against = lines(
        About(
            "Step time against acceptance",
            "Left: seconds of one step. Right: tokens that it yields. Time per token is the one over the other.",
            unit="s",
            runbooks=("PDWatchLatencyStepChange", "PDWatchSpeculationCollapsed"),
            boards={"vllm-speculation": "acceptance by position"},
        ),
        Query(vllm.recorded(ITL), f"step time: {POOL}"),
        Query(vllm.recorded(LENGTH), f"tokens per step: {POOL}", RIGHT_AXIS),
    )
    each = vllm.recorded(RANK, BY_ENGINE)
    apart = lines(
        About(
            "Step time of each rank, against the median of its pool",
            "From 1.3 on a rank is slow.",
            runbooks=("PDWatchRankSlow",),
            decimals=2,
        ),
        Query(
            f"{each} / on (deployment, pool) group_left () (quantile by (deployment, pool) (0.5, {each}) > 0)", ENGINE
        ),
        thresholds=SLOW_RANK,
    )
    itl = lines(
        About("Step time", "Mean and interpolated 95th percentile of one engine step.", unit="s"),
        Query(vllm.recorded(ITL), f"mean: {POOL}"),
        Query(vllm.recorded("pool:vllm_itl_seconds:p95_5m"), f"p95: {POOL}"),
    )
    return [Place(against, 8), Place(apart, 8), Place(itl, 8)]


def _load(vllm: Vllm) -> list[Place]:
    batch = lines(
        About("Batch by engine", "Requests in each engine's batch."),
        Query(vllm.gauge("sum", "running", BY_ENGINE), ENGINE),
    )
    waiting = lines(
        About(
            "Waiting, and waiting for KV",
            "By reason, and by stage of the fetch.",
            runbooks=("PDWatchQueueBuildup", "PDWatchKvStalled"),
        ),
        Query(vllm.gauge("sum", "waiting_by_reason", (*BY_POOL, "reason")), "{{reason}}: {{pool}} {{deployment}}"),
        Query(vllm.gauge("sum", "kv_fetch", (*BY_POOL, "stage")), "{{stage}}: {{pool}} {{deployment}}"),
    )
    kv = lines(
        About("KV cache by engine", "A full cache preempts.", unit="percentunit"),
        Query(vllm.gauge("max", "kv_usage", BY_ENGINE), ENGINE),
        most=1,
        thresholds=FULL,
    )
    tokens = lines(
        About("Tokens per second", "Generated by each pool."),
        Query(vllm.rate("generation_tokens"), POOL),
    )
    return [Place(batch), Place(waiting), Place(kv), Place(tokens)]


def _wrong(vllm: Vllm) -> list[Place]:
    preempted = lines(
        About("Preemptions per second", "Requests thrown out of the batch for lack of KV room.", empty=NOTHING),
        Query(vllm.rate("preemptions"), POOL),
    )
    recomputed = lines(
        About(
            "Prompt tokens that decode computed itself",
            "Their KV did not come from prefill.",
            empty=NOTHING,
            runbooks=("PDWatchLocalRecompute",),
        ),
        Query(vllm.rate("prompt_tokens_by_source", source="local_compute"), POOL),
    )
    outcomes = lines(
        About("Requests finished, by reason", "`error` and `abort` are the ones to look at.", unit="reqps"),
        Query(
            vllm.rate("requests_finished", (*BY_POOL, "finished_reason")),
            "{{finished_reason}}: {{pool}} {{deployment}}",
        ),
    )
    return [Place(preempted, 8), Place(recomputed, 8), Place(outcomes, 8)]
