"""The two families of rules, whole. In: the configuration. Out: groups in the order in which a person reads them.

`vllm`: on vLLM's own pages, for a Prometheus that scrapes the servers; works without any pdwatch. `pdwatch`: on what
pdwatch exports. Both give the same alerts with the same identities, so one Prometheus loads one of them.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.rules.burn_rates import burn_groups
from agent.export.rules.drafts import draft_recordings
from agent.export.rules.failures import failure_recordings
from agent.export.rules.identity import Identity
from agent.export.rules.model import Family, Group, Recording, Rule
from agent.export.rules.objectives import VllmObjectives
from agent.export.rules.own_rules import OwnRules
from agent.export.rules.pdwatch_source import PdwatchSource
from agent.export.rules.promql import span
from agent.export.rules.thresholds import BASELINE_SECONDS, WINDOW_SECONDS
from agent.export.rules.vllm_source import VllmSource
from agent.export.rules.watch_data import data_alerts, dead_man
from agent.export.rules.watch_drafting import drafting_rules
from agent.export.rules.watch_engines import engine_rules
from agent.export.rules.watch_load import load_alerts
from agent.export.rules.watch_traffic import legs_unmatched, traffic_rules

SHOWN = {
    "prefill": ("ttft", "e2e"),
    "decode": ("ttft", "tpot", "itl", "e2e", "kv_transfer"),
    "both": ("ttft", "tpot", "itl", "e2e"),
}
"""Role -> latencies recorded for boards and for reading back."""


def vllm_family(config: Config) -> Family:
    """Rules on vLLM's own metrics."""
    source, identity = VllmSource(config), Identity(config, boards="vllm-")
    data = [alert for pool in config.pools for alert in data_alerts(config, source, identity, pool)]
    engines = [rule for pool in config.pools for rule in engine_rules(source, identity, pool)]
    traffic: list[Rule] = [rule for pool in config.pools for rule in traffic_rules(source, identity, pool)]
    traffic += legs_unmatched(config, source, identity)
    drafting = [rule for pool in config.pools for rule in drafting_rules(source, identity, pool)]
    load = [alert for pool in config.pools for alert in load_alerts(config, source, identity, pool)]
    groups = [
        Group("pdwatch-data", (dead_man(identity), *data)),
        Group("pdwatch-pools", tuple(_latencies(config, source, identity))),
        Group("pdwatch-windows", tuple(_windows(config, source, identity))),
        VllmObjectives(config, source, identity).group(),
        *burn_groups(config, source, identity),
        Group("pdwatch-engines", tuple(engines)),
        Group("pdwatch-traffic", tuple(traffic)),
        Group("pdwatch-drafting", tuple(drafting)),
        Group("pdwatch-load", tuple(load)),
    ]
    return Family(
        "vllm",
        "Rules on vLLM's own metrics; no pdwatch needs to run.",
        tuple(group for group in groups if group.rules or group.comments),
    )


def pdwatch_family(config: Config) -> Family:
    """Rules on pdwatch's metrics."""
    source, identity = PdwatchSource(config), Identity(config)
    rules = OwnRules(config, source, identity)
    groups = [
        Group("pdwatch-data", (dead_man(identity), rules.agent_down(), rules.flapping())),
        Group("pdwatch-pools", tuple(rules.recordings())),
        Group("pdwatch-objectives", tuple(rules.objectives())),
        *burn_groups(config, source, identity),
        Group("pdwatch-problems", tuple(rules.problems())),
    ]
    return Family(
        "pdwatch", "Rules on what pdwatch exports.", tuple(group for group in groups if group.rules or group.comments)
    )


def _latencies(config: Config, source: VllmSource, identity: Identity) -> list[Recording]:
    """Means and 95th percentiles of each pool: the pools are never mixed, and buckets are merged before a quantile."""
    found = []
    w = span(WINDOW_SECONDS)
    for pool in config.pools:
        pools, labels = (pool.name,), identity.deployment | {"pool": pool.name}
        for indicator in SHOWN[pool.role]:
            name = f"pool:vllm_{indicator}_seconds"
            total, count = (of(indicator, pools, WINDOW_SECONDS) for of in (source.total, source.count))
            found.append(Recording(f"{name}:mean{w}", f"{total} / ({count} > 0)", labels))
            buckets = source.buckets(indicator, pools, WINDOW_SECONDS)
            found.append(Recording(f"{name}:p95_{w}", f"histogram_quantile(0.95, {buckets})", labels))
    return found


def _windows(config: Config, source: VllmSource, identity: Identity) -> list[Recording]:
    """What objectives read over windows that no watch rule has."""
    found: dict[tuple[str, str, float], list[Recording]] = {}
    for objective in config.objectives:
        seconds = objective.window_seconds
        for pool in config.pools:
            if objective.scope not in ("system", pool.name):
                continue
            if objective.indicator == "errors" and seconds != WINDOW_SECONDS:
                recordings = failure_recordings(source, identity, pool.name, seconds)
                found["errors", pool.name, seconds] = recordings
            drafts = objective.indicator == "acceptance_length" and pool.role != "prefill"
            if drafts and seconds not in (WINDOW_SECONDS, BASELINE_SECONDS):
                found["drafts", pool.name, seconds] = draft_recordings(source, identity, pool, seconds)
    return [recording for recordings in found.values() for recording in recordings]
