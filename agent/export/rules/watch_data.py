"""Is there anything to look at? In: pools. Out: rules on targets that are down, flap, lack engines or metrics.

Without data every other rule is silent, and silence looks like health: these rules tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from agent.config import Config, Pool
from agent.export.rules.identity import DEAD_MAN, TARGET_FLAPS, Identity
from agent.export.rules.legs import edges_used, legs_of
from agent.export.rules.model import Alert
from agent.export.rules.promql import all_of, any_of, le_matcher, number, span, unless
from agent.export.rules.thresholds import (
    FLAP_CHANGES,
    FLAP_SECONDS,
    FLAP_UP_RATIO,
    FORGET_ENGINE_SECONDS,
    WINDOW_SECONDS,
)
from agent.export.rules.vllm_names import HISTOGRAMS
from agent.export.rules.vllm_source import VllmSource
from agent.export.rules.watch import watch_alert

NEEDED = {
    "prefill": ("ttft", "e2e", "requests_finished", "prompt_tokens"),
    "decode": ("ttft", "tpot", "itl", "generation_tokens", "requests_finished", "kv_usage"),
    "both": ("ttft", "tpot", "itl", "generation_tokens", "requests_finished"),
}
"""Role -> what the rules cannot do without: the verdicts' list, less what only explains."""


def dead_man(identity: Identity) -> Alert:
    """Always fires. Whoever receives it must miss it when it stops."""
    return watch_alert(
        identity,
        DEAD_MAN,
        "system",
        "vector(1)",
        severity="info",
        description="This alert always fires. When it stops arriving, Prometheus or Alertmanager cannot call anybody.",
        says="fires always; its receiver must call when it stops",
    )


def data_alerts(config: Config, source: VllmSource, identity: Identity, pool: Pool) -> Iterator[Alert]:
    """All rules of one pool on its data."""
    pools = (pool.name,)
    up = source.up(pools)
    nobody = any_of(f"max({up}) == 0", f"max(absent_over_time({up}[1m]))")
    yield watch_alert(
        identity,
        "unreachable",
        pool.name,
        nobody,
        severity="critical",
        whole_pool=True,
        description=f"No target of pool {pool.name} answers Prometheus: nothing is known of the whole pool.",
        cause="Possible: all servers are down, a network or DNS failure, a wrong scrape configuration.",
        says="fires after 1 min without any successful scrape of the pool, or without any target",
    )
    yield watch_alert(
        identity,
        "unreachable",
        pool.name,
        f"max by (target) ({up}) == 0",
        description=f"Target %target% of pool {pool.name} does not answer Prometheus.",
        cause="Possible: the server died or restarts, its API process hangs, a network failure.",
        says="fires after 5 min in which every scrape of the target failed",
    )
    yield watch_alert(
        identity,
        TARGET_FLAPS,
        pool.name,
        all_of(
            f"avg by (target) (avg_over_time({up}[{span(FLAP_SECONDS)}])) < {number(FLAP_UP_RATIO)}",
            f"max by (target) (changes({up}[{span(FLAP_SECONDS)}])) >= {FLAP_CHANGES}",
            f"max by (target) (max_over_time({up}[2m])) == 1",
            on=("target",),
        ),
        description=f"Only %value:percent% of the scrapes of target %target% of pool {pool.name} succeed.",
        cause="Possible: pages that take longer than the scrape timeout, a server at its limit, packet loss.",
        says=f"fires when under {number(FLAP_UP_RATIO * 100)} % of scrapes succeed over 15m while some do, held for 5m",
    )
    tokens = source.names("generation_tokens")[0]
    series = f"{tokens}{source.selector(pools)}"
    shown = f"group by (target, engine) ({series})"
    yield watch_alert(
        identity,
        "engine_missing",
        pool.name,
        all_of(
            unless(
                f"group by (target, engine) (last_over_time({series}[{span(FORGET_ENGINE_SECONDS)}]))",
                shown,
                on=("target", "engine"),
            ),
            f"group by (target) ({series})",
            on=("target",),
        ),
        description=f"Engine %engine% of target %target% (pool {pool.name}) has left the page and is in no sum.",
        cause="Possible: a rank that died, elastic scale-down, a launch with fewer ranks.",
        says="fires 5 min after an engine's series ended while others of its target go on; forgotten after 1h",
    )
    yield _metric_missing(config, source, identity, pool)


def _metric_missing(config: Config, source: VllmSource, identity: Identity, pool: Pool) -> Alert:
    pools = (pool.name,)
    lacks = _Lacks(source, pools)
    missing = []
    for metric in NEEDED[pool.role]:
        wanted = f"{metric}_count" if metric in HISTOGRAMS else metric
        present = source.increase(wanted, pools, WINDOW_SECONDS)
        if metric == "kv_usage":
            present = source.gauge("last_over_time", metric, pools, WINDOW_SECONDS)
        missing.append(lacks.of(metric, present))
    for metric, edge in _edges(config, pool):
        bucket = source.increase(f"{metric}_bucket", pools, WINDOW_SECONDS, le_matcher(edge))
        missing.append(lacks.of(f"{metric} bucket {number(edge)}", bucket))
    return watch_alert(
        identity,
        "metric_missing",
        pool.name,
        f"count by (target) ({any_of(*missing)})",
        description=f"Target %target% of pool {pool.name} lacks %value% of the metrics or bucket edges that the rules "
        "need; what rests on them is silent.",
        cause="Possible: another vLLM version, --disable-log-stats, --custom-histogram-buckets, relabelling.",
        says="fires when a page lacked a needed metric or bucket edge for 5m, held for 5m",
    )


class _Lacks:
    """Targets that answered all the time and whose pages lack something."""

    def __init__(self, source: VllmSource, pools: tuple[str, ...]) -> None:
        up = f"min by (target) (min_over_time({source.up(pools)}[{span(WINDOW_SECONDS)}]))"
        self._answered = f"{up} == 1"

    def of(self, what: str, present: str) -> str:
        """A series for each such target, with the name of what it lacks."""
        lacking = unless(self._answered, f"group by (target) ({present})", on=("target",))
        return f'label_replace({lacking}, "metric", "{what}", "", "")'


def _edges(config: Config, pool: Pool) -> list[tuple[str, Decimal]]:
    """The buckets of this pool that objectives are judged by."""
    used: dict[tuple[str, Decimal], None] = {}
    for objective in config.objectives:
        if objective.statistic == "mean":
            continue
        for leg, edge in edges_used(legs_of(objective, config), Decimal(str(objective.target))):
            if pool.name in leg.pools:
                used[leg.indicator, edge] = None
    return list(used)
