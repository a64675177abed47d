"""Board "SLA overview": is the promise kept, what is left, which pool, why not. In: the configuration. Out: a board."""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.events import ALERTS, own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.headroom import budget_left, headroom
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import ANY_IS_BAD, NOT_KNOWN, NOTHING, SOURCES, STATUSES, VERDICTS, codes
from agent.export.dashboards.panels import About, Query, lines, numbers, rows, states_over_time
from agent.export.dashboards.promises import edges, target_lines
from agent.export.dashboards.queries import Own, coded
from agent.export.dashboards.variables import ALLOWED, DEPLOYMENT, PERCENTILE, POOL

OBJECTIVE = ("objective", "scope")
WHAT = "{{objective}} of {{scope}} {{deployment}}"
CAUSE = (*OBJECTIVE, "code", "text")
PROBLEM = ("severity", "code", "scope", "target", "engine", "process")
BROKEN = "PDWatchObjectiveBreached"


def overview(config: Config) -> Board:
    """The first board to look at, and the one that most alerts lead to."""
    own = Own(pool="pool")
    return Board(
        word="overview",
        title="pdwatch / SLA overview",
        description="Is the promise kept? How much is left? Which pool, and why?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, POOL, PERCENTILE, ALLOWED],
        events=own_events(),
        rows=[
            Row("Is the promise kept?", _promise(own)),
            Row("How much is left?", _left(config, own)),
            Row("Why not?", _why(own)),
            Row("What a user feels", _user(config, own)),
            Row("Both pools side by side", _pools(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _promise(own: Own) -> list[Place]:
    verdict = coded(own, "objective_verdict", "verdict", codes(VERDICTS))
    status = coded(own, "objective_status", "status", codes(STATUSES))
    kept = numbers(
        About(
            "Now",
            "One tile for each objective. Kept and broken are certain: they hold whatever lies inside the servers' "
            "buckets. 'Cannot tell' means that the buckets do not decide it, 'too few requests' and 'no traffic' that "
            "there is nothing to judge: neither is good news or bad news.",
            runbooks=(BROKEN,),
        ),
        Query(verdict, WHAT),
        states=VERDICTS,
        spark=False,
    )
    over_time = states_over_time(
        About(
            "Verdicts over time",
            "The verdict of each moment, before any hold time. A broken stretch shorter than the objective's hold time "
            "pages nobody; look for it here all the same.",
        ),
        Query(verdict, WHAT),
        states=VERDICTS,
    )
    incidents = states_over_time(
        About(
            "Incidents over time",
            "What was made of the verdicts: pending until the hold time has passed, then firing (somebody is paged), "
            "resolved after the clear time.",
            runbooks=(BROKEN,),
        ),
        Query(status, WHAT),
        states=STATUSES,
    )
    columns = [
        ("judged", Query(own.now("objective_value"))),
        ("never below", Query(own.now("objective_value_low"))),
        ("never above", Query(own.now("objective_value_high"))),
        ("promised", Query(own.now("objective_target"))),
        ("observations", Query(own.now("objective_observations"))),
    ]
    table = rows(
        About(
            "Objectives in numbers",
            "What is judged, over the objective's own window, with what is certain about it. Seconds for times, 0 to 1 "
            "for shares, tokens per step for acceptance. Without a number there was nothing to judge.",
            decimals=4,
        ),
        columns,
        labels=["deployment", *OBJECTIVE],
        units={"observations": "short"},
    )
    return [Place(kept, 6, 7), Place(over_time, 9, 7), Place(incidents, 9, 7), Place(table, 24, 6)]


def _left(config: Config, own: Own) -> list[Place]:
    total = f"sum by (deployment, objective, scope) (count_over_time({own.series('objective_verdict')}[$__range]))"
    kept = own.series("objective_verdict", verdict="met")
    share = f"sum by (deployment, objective, scope) (count_over_time({kept}[$__range])) / {total}"
    return [
        Place(headroom(config, own), 8, 7),
        Place(budget_left(config, own), 8, 7),
        Place(
            numbers(
                About(
                    "Time kept",
                    "Share of the time range above in which the promise was kept for certain. The rest is broken, not "
                    "decidable, or without traffic; the timeline above tells which.",
                    unit="percentunit",
                    decimals=2,
                ),
                Query(share, WHAT),
                spark=False,
            ),
            8,
            7,
        ),
    ]


def _why(own: Own) -> list[Place]:
    causes = rows(
        About(
            "Why a promise is broken",
            "One line for each promise that is broken, pending or firing: what changed and by how much, with the "
            "numbers of now. A broken promise without a line: nothing that pdwatch knows explains it; read the boards "
            "of the pools. An empty table is the good case.",
            empty=NOTHING,
            runbooks=(BROKEN,),
        ),
        [("stands", Query(own.now("cause_info")))],
        labels=["deployment", *CAUSE],
        hidden=["stands"],
    )
    problems = rows(
        About(
            "What stands against it now",
            "Problems that pdwatch sees now, the cause of a broken promise among them: critical ones call somebody, "
            "warnings need somebody, info only explains. An empty table is the good case.",
            empty=NOTHING,
            runbooks=("PDWatchKvStalled", "PDWatchEngineFrozen", "PDWatchPoolUnreachable", "PDWatchPoolImbalance"),
        ),
        [("stands", Query(own.now("problem", PROBLEM)))],
        labels=["deployment", *PROBLEM],
        hidden=["stands"],
    )
    standing = f"sum by (deployment, code, scope) ({own.now('problem')})"
    over_time = lines(
        About(
            "Problems over time",
            "How many targets, engines or processes had each problem. What rose first, before the promise broke, is "
            "the first place to look.",
            empty=NOTHING,
            decimals=0,
        ),
        Query(standing, "{{code}} {{scope}} {{deployment}}"),
    )
    firing = rows(
        About(
            "Alerts that fire in Prometheus",
            "Alerts of the generated rules, where Prometheus is the one who pages. Empty when nothing fires, when the "
            "rules are not loaded, and when pdwatch pages by itself.",
            empty=NOTHING,
        ),
        [("fires", Query(f"max by (deployment, alertname, severity, scope, objective, code, target) ({ALERTS})"))],
        labels=["deployment", "alertname", "severity", "scope", "objective", "code", "target"],
        hidden=["fires"],
    )
    return [Place(causes, 24, 5), Place(problems, 12, 8), Place(over_time, 12, 8), Place(firing, 24, 6)]


def _user(config: Config, own: Own) -> list[Place]:
    at = {"percentile": "$percentile"}
    parts = {
        "prefill leg": "system_ttft_prefill_leg_mean_seconds",
        "KV and decode leg": "system_ttft_decode_leg_mean_seconds",
    }
    ttft = lines(
        About(
            "Time to first token, as a user waits for it",
            "From the request's arrival to its first token, both legs: mean, and the percentile chosen above where "
            "traces or the router give one (legs cannot be added percentile by percentile). Red: what is promised.",
            unit="s",
            runbooks=(BROKEN,),
            boards={"prefill": "where the time goes"},
        ),
        Query(own.now("system_ttft_mean_seconds"), "mean {{deployment}}"),
        Query(own.now("system_ttft_percentile_seconds", **at), "{{percentile}} {{deployment}}"),
        *(Query(own.now(metric), f"mean of the {word} {{{{deployment}}}}") for word, metric in parts.items()),
        *target_lines(config, own, ["ttft"], system=True),
    )
    tpot = lines(
        About(
            "Time per output token",
            "Mean over the requests of each decode pool. A reader notices above about 50 ms. Red: what is promised. "
            "Prefill pools have none: each of their requests ends with its first token.",
            unit="s",
            runbooks=(BROKEN,),
            boards={"decode": "why a token takes this long"},
        ),
        Query(own.now("pool_tpot_mean_seconds"), "{{pool}} {{deployment}}"),
        *target_lines(config, own, ["tpot", "tpot_token"], system=False),
    )
    tiles = numbers(
        About(
            "First token, mean now",
            "Green: kept with room to spare; orange: close to the target; red: beyond it.",
            unit="s",
        ),
        Query(own.now("system_ttft_mean_seconds"), "{{deployment}}"),
        thresholds=edges(config, ["ttft"], system=True),
    )
    within = numbers(
        About(
            "Requests within the objectives",
            "Share of requests of the last minutes that were as fast as promised. Not known where no objective is on a "
            "bucket edge of the servers: then the share cannot be counted.",
            unit="percentunit",
            empty=NOT_KNOWN,
        ),
        Query(own.now("system_objectives_met_ratio"), "{{deployment}}"),
        thresholds=((None, "red"), (0.9, "orange"), (0.99, "green")),
    )
    source = numbers(
        About(
            "First token is told by",
            "The router or request spans measure it; composed, it is the sum of the two legs' means, which leaves out "
            "what lies between them.",
            empty=NOT_KNOWN,
        ),
        Query(coded(own, "system_ttft_source", "source", codes(SOURCES)), "{{deployment}}"),
        states=SOURCES,
        spark=False,
    )
    rate = lines(
        About(
            "Requests finished per second", "Requests finished for users. Flat at 0: idle, or cut off.", unit="reqps"
        ),
        Query(own.now("system_requests_per_second"), "{{deployment}}"),
    )
    per_gpu = lines(
        About(
            "Tokens per second and GPU",
            "Prompt tokens of prefill and generated tokens of decode, over all GPUs; goodput counts only requests "
            "within the objectives. Needs `gpus_per_target` in the configuration.",
            empty="Not known: no gpus_per_target",
        ),
        Query(own.now("system_tokens_per_second_per_gpu"), "all {{deployment}}"),
        Query(own.now("system_goodput_tokens_per_second_per_gpu"), "within the objectives {{deployment}}"),
    )
    return [
        Place(tiles, 4, 8), Place(ttft, 10, 8), Place(tpot, 10, 8), Place(within, 4, 7), Place(source, 4, 7),
        Place(rate, 8, 7), Place(per_gpu, 8, 7),
    ]  # fmt: skip


def _pools(own: Own) -> list[Place]:
    up = f"sum by (deployment, pool) ({own.now('target_up')})"
    columns = [
        ("targets up", Query(up)),
        ("targets", Query(f"count by (deployment, pool) ({own.now('target_up')})")),
        ("requests/s", Query(own.now("pool_requests_per_second"))),
        ("first token", Query(own.now("pool_ttft_mean_seconds"))),
        ("per token", Query(own.now("pool_tpot_mean_seconds"))),
        ("running", Query(own.now("pool_requests_running"))),
        ("waiting", Query(own.now("pool_requests_waiting"))),
        ("KV, fullest engine", Query(own.now("pool_kv_usage_max_ratio"))),
        ("oldest data", Query(f"max by (deployment, pool) ({own.now('target_data_age_seconds')})")),
    ]
    table = rows(
        About(
            "Pools",
            "The pool that complains is often not the one that is short: prefill queues because decode is full, decode "
            "waits because KV does not come. Read both lines together.",
        ),
        columns,
        labels=["deployment", "pool"],
        units={
            "first token": "s",
            "per token": "s",
            "KV, fullest engine": "percentunit",
            "oldest data": "s",
            "requests/s": "reqps",
        },
    )
    down = numbers(
        About(
            "Targets down",
            "Targets whose last page did not come, could not be used or is old. What is shown elsewhere rests on the "
            "others.",
            empty=NOT_KNOWN,
            runbooks=("PDWatchTargetUnreachable", "PDWatchTargetStale", "PDWatchUnusablePage"),
            boards={"itself": "scrapes of each target"},
        ),
        Query(
            f"count by (deployment) ({own.now('target_up')}) - sum by (deployment) ({own.now('target_up')})",
            "{{deployment}}",
        ),
        thresholds=ANY_IS_BAD,
    )
    return [Place(table, 20, 7), Place(down, 4, 7)]
