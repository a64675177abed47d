"""Board "Decode": how long a token takes, and why. In: the configuration. Out: a board.

A step makes as many tokens as were accepted, so time per token = step time / acceptance length: either the steps got
longer (batch, context, CUDA graphs, one slow rank) or fewer drafts are accepted.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.bounds import READS, band
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import FULL, NOTHING, properties
from agent.export.dashboards.panels import About, Query, distribution, lines, numbers
from agent.export.dashboards.prefill import ENGINE, POOL
from agent.export.dashboards.promises import edges, target_lines
from agent.export.dashboards.queries import Own
from agent.export.dashboards.variables import DECODE, DEPLOYMENT, PERCENTILE

RIGHT_AXIS = properties(custom__axisPlacement="right", unit="short", custom__axisLabel="tokens per step")
SLOW_RANK = ((None, "green"), (1.3, "red"))
"""A rank this much slower than the median of its pool is reported as slow."""


def decode_board(config: Config) -> Board:
    """From the first token to the last."""
    own = Own(pool="decode")
    return Board(
        word="decode",
        title="pdwatch / Decode",
        description="How long does a token take, and why: step time, acceptance, batch, preemptions, one slow rank?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, DECODE, PERCENTILE],
        events=own_events(),
        rows=[
            Row("Now", _now(config, own)),
            Row("Time per output token", _tpot(config, own)),
            Row("Why: steps and acceptance", _steps(own)),
            Row("Why: load", _load(own)),
            Row("Why: one rank", _ranks(own)),
            Row("What goes wrong", _wrong(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _now(config: Config, own: Own) -> list[Place]:
    tiles = [
        (About("Time per token", "Mean over requests, against the promise.", unit="s"), "pool_tpot_mean_seconds",
         edges(config, ["tpot", "tpot_token"], system=False)),
        (About("Tokens per second, one user", "What one reader sees: 1 / time per token."),
         "pool_tokens_per_second_per_user", ((None, "blue"),)),
        (About("Step time", "Mean time of one engine step; with speculation not the time per token.", unit="s"),
         "pool_itl_mean_seconds", edges(config, ["itl"], system=False)),
        (About("Tokens per step", "1 without speculation; more is what drafting gains.", decimals=2),
         "pool_acceptance_length_tokens", edges(config, ["acceptance_length"], system=False)),
    ]  # fmt: skip
    return [Place(numbers(about, Query(own.now(name), POOL), thresholds=at), 6, 4) for about, name, at in tiles]


def _tpot(config: Config, own: Own) -> list[Place]:
    tpot = band(
        About("Time per token, $decode", READS, unit="s", repeat="decode", runbooks=("PDWatchObjectiveBreached",)),
        own,
        "pool_tpot",
        *target_lines(config, own, ["tpot"], system=False),
    )
    means = lines(
        About(
            "Two means",
            "Over requests, and over tokens with requests in flight included. The mean over requests knows only what "
            "has ended, so in a collapse the mean over tokens rises first; short answers pull the two apart.",
            unit="s",
        ),
        Query(own.now("pool_tpot_mean_seconds"), f"over requests: {POOL}"),
        Query(own.now("pool_tpot_token_mean_seconds"), f"over tokens: {POOL}"),
        Query(own.now("pool_tpot_mix_difference_seconds"), f"difference: {POOL}"),
        *target_lines(config, own, ["tpot", "tpot_token"], system=False),
        least=None,
    )
    heat = distribution(
        About("All times per token", "Each cell one bucket of the servers; darker is more requests.", unit="s"),
        Query(own.buckets("tpot_seconds"), "{{le}}"),
    )
    return [Place(tpot, 24, 9), Place(means), Place(heat)]


def _steps(own: Own) -> list[Place]:
    itl, length = own.now("pool_itl_mean_seconds"), own.now("pool_acceptance_length_tokens")
    against = lines(
        About(
            "Step time against acceptance",
            "Left: seconds of one step. Right: tokens that it yields. Time per token is the one over the other: when "
            "it rises, this panel says which of the two moved.",
            unit="s",
            runbooks=("PDWatchLatencyStepChange", "PDWatchSpeculationCollapsed"),
            boards={"speculation": "acceptance by position"},
        ),
        Query(itl, f"step time: {POOL}"),
        Query(length, f"tokens per step: {POOL}", RIGHT_AXIS),
    )
    check = lines(
        About(
            "Does it add up?",
            "Measured time per token, and step time / tokens per step. They lie together; where they part, the "
            "acceptance or the steps are not what they seem (padded drafts, a metric that is missing).",
            unit="s",
        ),
        Query(own.now("pool_tpot_token_mean_seconds"), f"measured: {POOL}"),
        Query(f"{itl} / ({length} > 0)", f"step time / tokens per step: {POOL}"),
    )
    steps = band(About("Step time, $decode", READS, unit="s", repeat="decode"), own, "pool_itl")
    return [Place(against, 12, 8), Place(check, 12, 8), Place(steps, 24, 8)]


def _load(own: Own) -> list[Place]:
    batch = lines(
        About("Batch by engine", "Requests in each engine's batch. Steps grow with the batch and with its contexts."),
        Query(own.now("engine_requests_running"), ENGINE),
    )
    waiting = lines(
        About(
            "Waiting, and waiting for KV",
            "For room (capacity), put off until KV comes (deferred), and by stage of the fetch.",
            runbooks=("PDWatchQueueBuildup", "PDWatchKvStalled"),
            boards={"kv-transfer": "transfers"},
        ),
        Query(own.now("pool_requests_waiting_by_reason"), "{{reason}}: {{pool}} {{deployment}}"),
        Query(own.now("pool_requests_kv_fetch"), "{{stage}}: {{pool}} {{deployment}}"),
    )
    kv = lines(
        About("KV cache by engine", "A full cache preempts: past 90 % it bounds the batch.", unit="percentunit"),
        Query(own.now("engine_kv_usage_ratio"), ENGINE),
        most=1,
        thresholds=FULL,
    )
    tokens = lines(
        About("Tokens per second", "Generated by each pool; per GPU where gpus_per_target is configured."),
        Query(own.now("pool_generation_tokens_per_second"), POOL),
        Query(own.now("pool_generation_tokens_per_second_per_gpu"), f"per GPU: {POOL}"),
    )
    return [Place(batch), Place(waiting), Place(kv), Place(tokens)]


def _ranks(own: Own) -> list[Place]:
    each = own.now("engine_itl_mean_seconds")
    median = f"quantile by (deployment, pool) (0.5, {each})"
    apart = lines(
        About(
            "Step time of each rank, against the median of its pool",
            "1 is like its siblings. From 1.3 on a rank is slow, and with expert or data parallelism all wait for it.",
            runbooks=("PDWatchRankSlow",),
            decimals=2,
        ),
        Query(f"{each} / on (deployment, pool) group_left () ({median} > 0)", ENGINE),
        thresholds=SLOW_RANK,
    )
    tpot = lines(
        About("Time per token by engine", "Mean over each engine's requests.", unit="s"),
        Query(own.now("engine_tpot_mean_seconds"), ENGINE),
    )
    length = lines(
        About(
            "Tokens per step by engine",
            "Drafts are accepted alike on all ranks; one that differs has other traffic.",
            decimals=2,
        ),
        Query(own.now("engine_acceptance_length_tokens"), ENGINE),
    )
    rate = lines(
        About(
            "Tokens per second by engine",
            "An engine with a batch and no tokens is frozen.",
            runbooks=("PDWatchEngineFrozen",),
        ),
        Query(own.now("engine_generation_tokens_per_second"), ENGINE),
    )
    return [Place(apart), Place(tpot), Place(length), Place(rate)]


def _wrong(own: Own) -> list[Place]:
    preempted = lines(
        About(
            "Preemptions per second",
            "Requests thrown out of the batch for lack of KV room. On decode each computes its whole prompt again.",
            empty=NOTHING,
        ),
        Query(own.rate("preemptions_total"), POOL),
    )
    recomputed = lines(
        About(
            "Prompt tokens that decode computed itself",
            "Their KV did not come from prefill, or was lost by a preemption.",
            empty=NOTHING,
            runbooks=("PDWatchLocalRecompute",),
        ),
        Query(own.rate("recomputed_tokens_total"), POOL),
    )
    outcomes = lines(
        About("Requests finished, by reason", "`error` and `abort` are the ones to look at.", unit="reqps"),
        Query(own.rate("requests_finished_total"), "{{reason}}: {{pool}} {{deployment}}"),
    )
    return [Place(preempted, 8), Place(recomputed, 8), Place(outcomes, 8)]
