"""Board "Capacity": how full the pools are, and which of them is short. In: the configuration. Out: a board."""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import FULL
from agent.export.dashboards.panels import About, Query, lines, numbers
from agent.export.dashboards.prefill import ENGINE, POOL
from agent.export.dashboards.queries import Own
from agent.export.dashboards.variables import DEPLOYMENT
from agent.export.dashboards.variables import POOL as POOLS


def capacity_board(config: Config) -> Board:
    """KV cache, batches, queues and tokens of all pools."""
    own = Own(pool="pool")
    return Board(
        word="capacity",
        title="pdwatch / Capacity",
        description="How full are the pools, which of them is short, and what does a GPU yield?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, POOLS],
        events=own_events(),
        rows=[
            Row("KV cache", _cache(own)),
            Row("Requests", _requests(own)),
            Row("Tokens", _tokens(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _cache(own: Own) -> list[Place]:
    fullest = numbers(
        About(
            "Fullest engine", "Past 90 % the cache bounds the pool: requests wait or are preempted.", unit="percentunit"
        ),
        Query(own.now("pool_kv_usage_max_ratio"), POOL),
        thresholds=FULL,
    )
    usage = lines(
        About(
            "KV cache in use",
            "Fullest engine and mean. Far apart: routing is uneven, and adding servers will not help. Together and "
            "high: the pool is short.",
            unit="percentunit",
            runbooks=("PDWatchPoolImbalance", "PDWatchKvPinned"),
        ),
        Query(own.now("pool_kv_usage_max_ratio"), f"fullest: {POOL}"),
        Query(own.now("pool_kv_usage_mean_ratio"), f"mean: {POOL}"),
        most=1,
        thresholds=FULL,
    )
    engines = lines(
        About(
            "KV cache by engine",
            "Each engine has a cache of its own; one full engine holds up whoever it is given.",
            unit="percentunit",
        ),
        Query(own.now("engine_kv_usage_ratio"), ENGINE),
        most=1,
    )
    return [Place(fullest, 4, 8), Place(usage, 10, 8), Place(engines, 10, 8)]


def _requests(own: Own) -> list[Place]:
    waiting = lines(
        About(
            "Running and waiting",
            "Prefill waiting while decode is full: decode is short. Prefill waiting while decode has room: prefill is. "
            "Waiting that grows without end cannot be waited out.",
            runbooks=("PDWatchQueueBuildup", "PDWatchPoolImbalance"),
        ),
        Query(own.now("pool_requests_running"), f"running: {POOL}"),
        Query(own.now("pool_requests_waiting"), f"waiting: {POOL}"),
    )
    reasons = lines(
        About("Waiting, by reason", "Capacity: no room. Deferred: the KV has not come; more room would not help."),
        Query(own.now("pool_requests_waiting_by_reason"), "{{reason}}: {{pool}} {{deployment}}"),
    )
    running = lines(
        About("Running by engine", "Batches side by side: even lines are an even load."),
        Query(own.now("engine_requests_running"), ENGINE),
    )
    rate = lines(
        About(
            "Requests finished per second",
            "By pool. Both pools see the same requests: the two lines lie together.",
            unit="reqps",
        ),
        Query(own.now("pool_requests_per_second"), POOL),
    )
    return [Place(waiting), Place(reasons), Place(running), Place(rate)]


def _tokens(own: Own) -> list[Place]:
    tokens = lines(
        About("Tokens per second", "Prompt tokens and generated tokens of each pool."),
        Query(own.now("pool_prompt_tokens_per_second"), f"prompt: {POOL}"),
        Query(own.now("pool_generation_tokens_per_second"), f"generated: {POOL}"),
    )
    per_gpu = lines(
        About(
            "Generated tokens per second and GPU",
            "What a GPU of the pool yields. Needs `gpus_per_target` in the configuration.",
            empty="Not known: no gpus_per_target",
        ),
        Query(own.now("pool_generation_tokens_per_second_per_gpu"), POOL),
    )
    gpus = numbers(
        About("GPUs", "As configured.", empty="Not configured", decimals=0),
        Query(own.now("pool_gpus"), POOL),
        spark=False,
    )
    moved = lines(
        About("KV moved between the pools", "Bytes per second.", unit="Bps", empty="No transfers"),
        Query(own.now("pool_kv_bytes_per_second"), POOL),
    )
    return [Place(tokens), Place(per_gpu), Place(gpus, 4, 8), Place(moved, 20, 8)]
