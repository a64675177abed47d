"""Who may talk to pdwatch, and to whom it talks. In: the configuration. Out: a NetworkPolicy for the central pod.

vLLM's pods get no policy from here: the first policy that selects a pod closes everything that it does not name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from agent.config import Config, Pool, Router
from agent.export.kubernetes.found import asks_kubernetes, found_pools
from agent.export.kubernetes.objects import CENTRAL_LABELS, NAME, manifest

API_SERVER_PORTS = (443, 6443)
_SCHEME_PORTS = {"http": 80, "https": 443}


def network_policy(config: Config) -> dict[str, Any]:
    """In: its one port, from the whole cluster. Out: names, servers, sidecars, receivers, the API server."""
    out: list[dict[str, Any]] = [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}]
    for found in found_pools(config):
        ports = [found.port] if found.pool.sidecar_port is None else [found.port, found.pool.sidecar_port]
        out.append({"to": [{"podSelector": dict(found.selector)}], "ports": _tcp(ports)})
    elsewhere = sorted(set(_ports_elsewhere(config)))
    if elsewhere:
        # No address can be given for what may be anywhere: the API server, routers, receivers of alerts.
        out.append({"ports": _tcp(elsewhere)})
    spec = {
        "podSelector": {"matchLabels": dict(CENTRAL_LABELS)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"namespaceSelector": {}}], "ports": _tcp([NAME])}],
        "egress": out,
    }
    return manifest("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def _tcp(ports: list[int | str] | list[int] | list[str]) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _ports_elsewhere(config: Config) -> Iterator[int]:
    if asks_kubernetes(config):
        yield from API_SERVER_PORTS
    for pool in config.pools:
        yield from _ports_of_group(pool)
    if config.router is not None:
        yield from _ports_of_group(config.router)
    alerting = config.alerting
    if alerting.sends_directly:
        # An address that comes from a file or a variable is not known here; receivers on the internet have 443.
        yield 443
        urls = [receiver.url for receiver in alerting.alertmanagers] + [hook.url or "" for hook in alerting.webhooks]
        yield from (port_of(url) for url in urls if url)
    if config.otlp is not None:
        yield port_of(config.otlp.endpoint) if config.otlp.endpoint else 4318
    if config.traces.forward is not None:
        yield port_of(config.traces.forward.url)


def _ports_of_group(group: Pool | Router) -> Iterator[int]:
    for target in group.targets:
        yield port_of(target.url)
    if isinstance(group, Pool):
        yield from (port_of(sidecar.url) for sidecar in group.sidecars)
        if group.targets and group.sidecar_port is not None:
            yield group.sidecar_port
    discovery = group.discovery
    if discovery is not None:
        if discovery.http_sd is not None:
            yield port_of(discovery.http_sd.url)
        if discovery.dns is not None and discovery.dns.port is not None:
            yield discovery.dns.port
        if isinstance(group, Router) and discovery.kubernetes is not None and discovery.kubernetes.port.isdigit():
            yield int(discovery.kubernetes.port)


def port_of(url: str) -> int:
    """The port that a URL leads to."""
    parts = urlsplit(url)
    return parts.port or _SCHEME_PORTS.get(parts.scheme, 443)
