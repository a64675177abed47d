"""pdwatch's container, in its own pod or beside a server. In: what differs. Out: its description.

It meets the restricted pod security standard: no root, no privileges, a root file system that cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent import __version__
from agent.export.kubernetes.objects import NAME

PORT = 9838
USER = 65532
"""Of nobody in the image; any other would do."""

IMAGE = f"{NAME}:{__version__}"
CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
LIVENESS: Mapping[str, Any] = {
    "httpGet": {"path": "/-/healthy", "port": NAME},
    "periodSeconds": 10,
    "timeoutSeconds": 5,
    "failureThreshold": 6,
}
READINESS: Mapping[str, Any] = {
    "httpGet": {"path": "/-/ready", "port": NAME},
    "periodSeconds": 5,
    "timeoutSeconds": 5,
    "failureThreshold": 3,
}


def container(args: Sequence[str], env: Sequence[Mapping[str, Any]], cpu: str, memory: str) -> dict[str, Any]:
    """`cpu` is what is asked for; there is no limit on it, since throttling makes a watch late. `memory`: the limit."""
    return {
        "name": NAME,
        "image": IMAGE,
        "args": list(args),
        "env": list(env),
        "ports": [{"name": NAME, "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": dict(LIVENESS),
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "securityContext": dict(CONTAINER_SECURITY),
    }
