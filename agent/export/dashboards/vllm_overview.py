"""Board "SLA overview" without pdwatch: what the recording rules judge. In: the configuration. Out: a board."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config import Config
from agent.export.dashboards.events import ALERTS
from agent.export.dashboards.frame import VLLM_TAG, Board
from agent.export.dashboards.headroom import GOOD_WHEN_FULL, WHAT
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import ANY_IS_BAD, NOTHING
from agent.export.dashboards.panels import About, Query, bars, lines, numbers, rows, states_over_time
from agent.export.dashboards.prefill import POOL
from agent.export.dashboards.variables import ALLOWED
from agent.export.dashboards.vllm_events import vllm_events
from agent.export.dashboards.vllm_judged import judged, judged_edges, promised_lines
from agent.export.dashboards.vllm_queries import VLLM_DEPLOYMENT, Vllm, pools

BROKEN: Mapping[str, tuple[int, str, str]] = {"no": (0, "not broken", "green"), "yes": (1, "broken", "red")}
RULES = "Needs the rules of alerts/vllm-rules.yml."


def vllm_overview(config: Config) -> Board:
    """For sites without pdwatch."""
    vllm = Vllm(config)
    return Board(
        word="vllm-overview",
        title="pdwatch rules / SLA overview",
        description=f"Is the promise kept, judged by Prometheus on vLLM's own metrics? {RULES}",
        tag=VLLM_TAG,
        variables=[VLLM_DEPLOYMENT, pools("pool"), ALLOWED],
        events=vllm_events(),
        rows=[
            Row("Is the promise kept?", _promise(config)),
            Row("How much is left?", _left(config)),
            Row("Why not?", _why()),
            Row("What a user feels", _user(config, vllm)),
            Row("Both pools side by side", _pools(vllm)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _promise(config: Config) -> list[Place]:
    broken = "\nor\n".join(one.broken for one in judged(config)) or "vector(0) > 1"
    values = "\nor\n".join(one.value for one in judged(config)) or "vector(0) > 1"
    promised = "\nor\n".join(one.promised for one in judged(config)) or "vector(0) > 1"
    now = numbers(
        About(
            "Now",
            "One tile for each objective; broken is certain. 'Not broken' may also be that the buckets do not decide: "
            "pdwatch tells the two apart, rules cannot. No tile: too few requests to judge.",
            runbooks=("PDWatchObjectiveBreached", "PDWatchNoData"),
        ),
        Query(broken, WHAT),
        states=BROKEN,
        spark=False,
    )
    over_time = states_over_time(
        About("Over time", "Before any hold time. Gaps are stretches without enough requests."),
        Query(broken, WHAT),
        states=BROKEN,
    )
    table = rows(
        About(
            "Objectives in numbers",
            "Seconds for times, shares for percentiles and shares (of requests within the target), over the "
            "objective's own window. All prompt lengths are in it: rules cannot leave out those outside the contract.",
            decimals=4,
        ),
        [("judged", Query(values)), ("limit", Query(promised))],
        labels=["deployment", "objective", "scope"],
    )
    return [Place(now, 6, 7), Place(over_time, 10, 7), Place(table, 8, 7)]


def _left(config: Config) -> list[Place]:
    headroom = bars(
        About(
            "Headroom now",
            "How far the judged value is from its limit, as a part of the limit. Nothing is left at 0; an empty red "
            "bar is beyond it.",
            unit="percentunit",
            decimals=1,
        ),
        *(Query(one.headroom, WHAT) for one in judged(config)),
        thresholds=GOOD_WHEN_FULL,
        most=1,
    )
    left = bars(
        About(
            "Budget left",
            "Of the time range above, the part of the allowed broken time that is not used up; how much is allowed is "
            "chosen above. Only time with enough requests counts.",
            unit="percentunit",
            decimals=1,
            runbooks=("PDWatchErrorBudgetBurn",),
        ),
        *(Query(f"1 - avg_over_time(({one.broken})[$__range:1m]) / $allowed", WHAT) for one in judged(config)),
        thresholds=GOOD_WHEN_FULL,
        most=1,
    )
    return [Place(headroom), Place(left)]


def _why() -> list[Place]:
    about = ["deployment", "alertname", "severity", "scope", "objective", "code", "target"]
    by = f"max by ({', '.join(about)})"
    firing = rows(
        About(
            "Alerts that fire",
            "Of the generated rules: critical ones page, warnings are tickets. Which is cause and which is effect, "
            "pdwatch would say; here, what fired first is the place to begin.",
            empty=NOTHING,
        ),
        [("fires", Query(f"{by} ({ALERTS})"))],
        labels=about,
        hidden=["fires"],
    )
    over_time = lines(
        About("Alerts over time", "How many of each fire.", empty=NOTHING, decimals=0),
        Query(f"sum by (deployment, alertname, scope) ({by} ({ALERTS}))", "{{alertname}} {{scope}} {{deployment}}"),
    )
    return [Place(firing), Place(over_time)]


def _user(config: Config, vllm: Vllm) -> list[Place]:
    first = [one for one in judged(config) if one.objective.indicator == "ttft" and one.objective.scope == "system"]
    ttft = lines(
        About(
            "Time to first token",
            "What is judged of the whole system (both legs), and the mean of each pool's own leg.",
            unit="s",
            boards={"vllm-prefill": "where the time goes"},
        ),
        *(Query(one.value, "as a user waits: {{objective}} {{deployment}}") for one in first),
        Query(vllm.recorded("pool:vllm_ttft_seconds:mean5m"), f"leg of {POOL}"),
        *promised_lines(config, ["ttft"], system=True),
    )
    tpot = lines(
        About(
            "Time per output token",
            "Mean over the requests of each decode pool; the zeros of one-token requests are taken out.",
            unit="s",
            boards={"vllm-decode": "why a token takes this long"},
        ),
        Query(vllm.recorded("pool:vllm_tpot_seconds:mean5m"), POOL),
        *promised_lines(config, ["tpot", "tpot_token"], system=False),
    )
    tile = numbers(
        About(
            "Time per token now",
            "Green: kept with room to spare; orange: close to the target; red: beyond it.",
            unit="s",
        ),
        Query(vllm.recorded("pool:vllm_tpot_seconds:mean5m"), POOL),
        thresholds=judged_edges(config, ["tpot", "tpot_token"], system=False),
    )
    return [Place(tile, 4), Place(ttft, 10), Place(tpot, 10)]


def _pools(vllm: Vllm) -> list[Place]:
    columns = [
        ("servers up", Query(vllm.up("sum"))),
        ("servers", Query(vllm.up("count"))),
        ("first token", Query(vllm.recorded("pool:vllm_ttft_seconds:mean5m"))),
        ("first token, p95", Query(vllm.recorded("pool:vllm_ttft_seconds:p95_5m"))),
        ("per token", Query(vllm.recorded("pool:vllm_tpot_seconds:mean5m"))),
        ("running", Query(vllm.gauge("sum", "running"))),
        ("waiting", Query(vllm.gauge("sum", "waiting"))),
        ("KV, fullest engine", Query(vllm.gauge("max", "kv_usage"))),
        ("failed, at most", Query(vllm.recorded("pool:vllm_requests_bad:high5m"))),
        ("of requests", Query(vllm.recorded("pool:vllm_requests_seen:high5m"))),
    ]
    table = rows(
        About(
            "Pools",
            "Read both lines together: the pool that complains is often not the one that is short. Failed: of the last "
            "five minutes, each request counted at most once per page.",
        ),
        columns,
        labels=["deployment", "pool"],
        units={"first token": "s", "first token, p95": "s", "per token": "s", "KV, fullest engine": "percentunit"},
    )
    down = numbers(
        About(
            "Servers down", "Whose last scrape did not come.", empty="Not known", runbooks=("PDWatchTargetUnreachable",)
        ),
        Query(f"{vllm.up('count')} - {vllm.up('sum')}", POOL),
        thresholds=ANY_IS_BAD,
    )
    return [Place(table, 20, 7), Place(down, 4, 7)]
