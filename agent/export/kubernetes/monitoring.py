"""For the Prometheus operator. In: the configuration. Out: PodMonitors and a PrometheusRule, in two components.

Pool, role and target are on none of vLLM's pages: a PodMonitor for each pool puts them on. pdwatch says them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.config import Config
from agent.export.kubernetes.found import FoundPool, found_pools
from agent.export.kubernetes.objects import CENTRAL_LABELS, NAME, document, kustomization, manifest
from agent.export.kubernetes.recordings import vllm_recordings
from agent.export.rules.families import pdwatch_family
from agent.export.rules.prometheus import kubernetes_rule
from agent.export.rules.promql import span

API = "monitoring.coreos.com/v1"
LABELS: Mapping[str, str] = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "monitoring"}
OWN_INTERVAL = "15s"

OF_PDWATCH = (
    "Scrapes of pdwatch and of its sidecars. Your Prometheus must select PodMonitors and rules by these labels.",
)
OF_VLLM = (
    "Scrapes of vLLM's own pages, and what the boards on them need recorded. pdwatch does without; each scraper costs",
    "the server a page (docs/sidecar-cost.md), so do not add this beside a PodMonitor that is there already.",
)


def pdwatch_monitoring(config: Config) -> Mapping[str, str]:
    """Monitors of central and sidecars; with `alerting.path: rules` also the rules that page."""
    central = _monitor(NAME, {"matchLabels": dict(CENTRAL_LABELS)}, _own_endpoint())
    beside = [
        _monitor(f"{NAME}-sidecar-{found.pool.name}", found.selector, _own_endpoint())
        for found in found_pools(config)
        if found.has_sidecars
    ]
    files = {"podmonitor.yaml": document(central, *beside, comments=OF_PDWATCH)}
    if config.alerting.path == "rules":
        files["prometheusrule.yaml"] = kubernetes_rule(pdwatch_family(config), config)
    return {"kustomization.yaml": kustomization(component=True, resources=list(files)), **files}


def vllm_monitoring(config: Config) -> Mapping[str, str]:
    """A monitor for each pool whose pods are found by label, and recordings; nothing where there is no such pool."""
    monitors = [
        _monitor(f"vllm-{found.pool.name}", found.selector, _vllm_endpoint(config, found))
        for found in found_pools(config)
    ]
    if not monitors:
        return {}
    files = {
        "podmonitor.yaml": document(*monitors, comments=OF_VLLM),
        "prometheusrule.yaml": kubernetes_rule(vllm_recordings(config), config),
    }
    return {"kustomization.yaml": kustomization(OF_VLLM, component=True, resources=list(files)), **files}


def _monitor(name: str, selector: Mapping[str, Any], endpoint: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"selector": dict(selector), "podMetricsEndpoints": [dict(endpoint)]}
    return manifest(API, "PodMonitor", name, labels=LABELS, spec=spec)


def _own_endpoint() -> dict[str, Any]:
    """Its own `target`, `pool` and `deployment` win over labels of the same names that the operator adds."""
    return {"port": NAME, "path": "/metrics", "interval": OWN_INTERVAL, "honorLabels": True}


def _vllm_endpoint(config: Config, found: FoundPool) -> dict[str, Any]:
    said = {"deployment": config.deployment or "", "pool": found.pool.name, "role": found.pool.role}
    relabelings: list[dict[str, Any]] = [
        {"action": "replace", "targetLabel": label, "replacement": value} for label, value in said.items()
    ]
    pod = {"action": "replace", "sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "target"}
    return {
        ("portNumber" if isinstance(found.port, int) else "port"): found.port,
        "path": found.discovery.path,
        "scheme": found.discovery.scheme,
        "interval": span(config.scrape.interval_seconds),
        "scrapeTimeout": span(config.scrape.timeout_seconds),
        "relabelings": [*relabelings, pod],
    }
