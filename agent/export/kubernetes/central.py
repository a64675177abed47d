"""The one pdwatch that judges a deployment. In: the configuration. Out: its Deployment, Service, state and rights."""

from __future__ import annotations

from typing import Any

from agent.config import Config
from agent.export.kubernetes.container import PORT, READINESS, USER, container
from agent.export.kubernetes.found import asks_kubernetes
from agent.export.kubernetes.objects import CENTRAL_LABELS, NAME, manifest

CONFIG_MAP = "pdwatch-config"
CONFIG_FILE = "pdwatch.yaml"
SECRET = "pdwatch-secrets"  # noqa: S105 - the name of one
"""Values of the `${NAME}` that the configuration refers to; it need not exist."""
STATE_DIR = "/var/lib/pdwatch"
CONFIG_DIR = "/etc/pdwatch"


def deployment(config: Config) -> dict[str, Any]:
    """One replica: two would page twice. The old one ends before the new one starts, since both write the state."""
    env = [{"name": "PDWATCH_LISTEN", "value": f":{PORT}"}, {"name": "PDWATCH_STATE_DIR", "value": STATE_DIR}]
    main = container(["run", "-c", f"{CONFIG_DIR}/{CONFIG_FILE}"], env, cpu="100m", memory="512Mi")
    main["envFrom"] = [{"secretRef": {"name": SECRET, "optional": True}}]
    main["readinessProbe"] = dict(READINESS)
    main["volumeMounts"] = [
        {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
        {"name": "state", "mountPath": STATE_DIR},
    ]
    pod = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": asks_kubernetes(config),
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [main],
        "volumes": [
            {"name": "config", "configMap": {"name": CONFIG_MAP}},
            {"name": "state", "persistentVolumeClaim": {"claimName": f"{NAME}-state"}},
        ],
    }
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": dict(CENTRAL_LABELS)},
        "template": {"metadata": {"labels": dict(CENTRAL_LABELS)}, "spec": pod},
    }
    return manifest("apps/v1", "Deployment", spec=spec)


def service() -> dict[str, Any]:
    """Where the page, the state and the spans' receiver are."""
    port = {"name": NAME, "port": PORT, "targetPort": NAME, "protocol": "TCP"}
    return manifest("v1", "Service", spec={"selector": dict(CENTRAL_LABELS), "ports": [port]})


def state_claim() -> dict[str, Any]:
    """History, open incidents and evidence."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    return manifest("v1", "PersistentVolumeClaim", f"{NAME}-state", spec=spec)


def service_account() -> dict[str, Any]:
    """Its token is mounted only where pods have to be found."""
    return manifest("v1", "ServiceAccount", automountServiceAccountToken=False)


def rights() -> tuple[dict[str, Any], dict[str, Any]]:
    """To read the pods of its own namespace, and nothing else."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    role = manifest("rbac.authorization.k8s.io/v1", "Role", rules=rules)
    binding = manifest(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        subjects=[{"kind": "ServiceAccount", "name": NAME}],
    )
    return role, binding
