"""Pools whose pods Kubernetes finds. In: the configuration. Out: for each its pool, selector and port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.config import Config, Discovery, Kubernetes, Pool, Router
from agent.errors import ConfigError
from agent.export.kubernetes.selectors import label_selector


@dataclass(frozen=True, slots=True)
class FoundPool:
    """`selector`: of the pool's pods, as manifests have it; `selector_text`: as the API takes it.

    `port`: number or name of that with vLLM's page.
    """

    pool: Pool
    discovery: Discovery
    selector: Mapping[str, Any]
    selector_text: str
    port: int | str

    @property
    def has_sidecars(self) -> bool:
        """Whether central asks the pdwatch beside each server, so that there has to be one."""
        return self.pool.sidecar_port is not None


def found_pools(config: Config) -> Sequence[FoundPool]:
    """In the order of the configuration. Raises ConfigError for a selector that Kubernetes would not understand."""
    found = []
    for pool in config.pools:
        discovery = pool.discovery
        if discovery is None or discovery.kubernetes is None:
            continue
        # `discovery.labels` narrows a source that pools share; a manifest has one selector for both.
        narrowed = [f"{label}={value}" for label, value in discovery.labels]
        text = ",".join(filter(None, [discovery.kubernetes.selector, *narrowed]))
        selector = label_selector(text, f"export kubernetes: pools.{pool.name}.discovery.kubernetes.selector")
        port = discovery.kubernetes.port
        found.append(FoundPool(pool, discovery, selector, text, int(port) if port.isdigit() else port))
    return found


def namespace_of(config: Config) -> str | None:
    """The one namespace that pods are looked for in; None: pdwatch's own, whichever that will be.

    Raises ConfigError where pools name different ones: rights and network policy hold inside one namespace.
    """
    names = {kubernetes.namespace for kubernetes in _asked(config)}
    if len(names) > 1:
        said = ", ".join(sorted("pdwatch's own" if name is None else name for name in names))
        raise ConfigError(
            f"export kubernetes: pools are looked for in several namespaces ({said}), and the rights written here are"
            " for one; give all of them the same discovery.kubernetes.namespace, or export each by itself"
        )
    return names.pop() if names else None


def asks_kubernetes(config: Config) -> bool:
    """Whether pdwatch has to be allowed to read pods."""
    return any(True for _ in _asked(config))


def _asked(config: Config) -> Iterator[Kubernetes]:
    groups: list[Pool | Router] = [*config.pools]
    if config.router is not None:
        groups.append(config.router)
    for group in groups:
        if group.discovery is not None and group.discovery.kubernetes is not None:
            yield group.discovery.kubernetes
