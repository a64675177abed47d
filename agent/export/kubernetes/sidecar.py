"""A pdwatch beside every vLLM server. In: pools that are found by label. Out: a component that patches their workloads.

Memory is on no server's page: it is read from /proc, where the processes are. So each pod gets a pdwatch in sidecar
mode, as a native sidecar (an init container that goes on), and all containers of the pod share one view of processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.config import Config, Memory, duration_text
from agent.errors import ConfigError
from agent.export.kubernetes.container import PORT, container
from agent.export.kubernetes.found import FoundPool, found_pools
from agent.export.kubernetes.objects import NAME, document, kustomization

WORKLOADS = ("StatefulSet", "Deployment")
POD_NAME = "POD_NAME"
"""Named before the variables that refer to it: Kubernetes replaces `$(NAME)` by what stands above."""

WHY = (
    "The pod's processes become visible to every container in it; pdwatch reads their memory (RssAnon, VmSwap), for",
    "which no privilege is needed. Only memory.mappings (smaps; off by default) needs vLLM's own user or SYS_PTRACE.",
    "There is no readiness probe: a watch that hangs must not take a server out of service.",
)
HOW = (
    "Put this beside your vLLM servers: components: [.../components/sidecar]. Workloads are found by their own",
    "labels (metadata.labels of the StatefulSet or Deployment), which must be those that the pods are selected by.",
    "Needs Kubernetes 1.29 or later.",
)


def sidecar_files(config: Config) -> Mapping[str, str]:
    """A patch for each pool, and the kustomization that says where it goes; nothing where no pool has sidecars."""
    pools = [found for found in found_pools(config) if found.has_sidecars]
    if not pools:
        return {}
    files = {f"{found.pool.name}.yaml": document(_patch(config, found), comments=WHY) for found in pools}
    patches = [
        {"path": f"{found.pool.name}.yaml", "target": {"kind": kind, "labelSelector": found.selector_text}}
        for found in pools
        for kind in WORKLOADS
    ]
    return {"kustomization.yaml": kustomization(HOW, component=True, patches=patches), **files}


def _patch(config: Config, found: FoundPool) -> dict[str, Any]:
    beside = container(["run"], _environment(config, found), cpu="25m", memory="192Mi")
    beside["restartPolicy"] = "Always"
    port = found.pool.sidecar_port or PORT
    beside["ports"] = [{"name": NAME, "containerPort": port, "protocol": "TCP"}]
    # Kind and name are those of whatever the target finds.
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": found.pool.name},
        "spec": {"template": {"spec": {"shareProcessNamespace": True, "initContainers": [beside]}}},
    }


def _environment(config: Config, found: FoundPool) -> list[dict[str, Any]]:
    """The whole configuration of a sidecar: it knows one server, under the name that central gives it, the pod's.

    Raises ConfigError where the port of its page is not known by number.
    """
    pool = found.pool
    if not isinstance(found.port, int):
        raise ConfigError(
            f"export kubernetes: pools.{pool.name}.discovery.kubernetes.port: a sidecar asks its server by number;"
            f" give the number of the port {found.port!r}"
        )
    page = f"{found.discovery.scheme}://127.0.0.1:{found.port}{found.discovery.path}"
    section: dict[str, Any] = {"role": pool.role}
    if pool.gpus_per_target is not None:
        section["gpus_per_target"] = pool.gpus_per_target
    section["targets"] = {f"$({POD_NAME})": page}
    values = {
        "PDWATCH_MODE": "sidecar",
        "PDWATCH_DEPLOYMENT": config.deployment or "",
        "PDWATCH_LISTEN": f":{pool.sidecar_port or PORT}",
        # Central asks for the page as often as it needs; here it only has to be seen that the server answers.
        "PDWATCH_SCRAPE_INTERVAL": "60s",
        "PDWATCH_POOLS": json.dumps({pool.name: section}),
        **_memory(config.memory),
    }
    return [
        {"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        *({"name": name, "value": value} for name, value in values.items()),
    ]


def _memory(memory: Memory) -> dict[str, str]:
    """What differs from the defaults of the memory watch, which is the sidecar's own work."""
    usual, given = Memory(), {}
    if memory.page_within_seconds != usual.page_within_seconds:
        given["PDWATCH_MEMORY_PAGE_WITHIN"] = duration_text(memory.page_within_seconds)
    if memory.cache_budget_bytes is not None:
        given["PDWATCH_MEMORY_CACHE_BUDGET"] = str(memory.cache_budget_bytes)
    if memory.mappings:
        given["PDWATCH_MEMORY_MAPPINGS"] = "true"
    return given
