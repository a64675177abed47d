"""All that `pdwatch export kubernetes` writes. In: the configuration and its file. Out: file name -> text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

from agent.config import Config
from agent.errors import ConfigError
from agent.export.dashboards.write import dashboard_files
from agent.export.kubernetes.central import (
    CONFIG_FILE,
    CONFIG_MAP,
    deployment,
    rights,
    service,
    service_account,
    state_claim,
)
from agent.export.kubernetes.found import asks_kubernetes, namespace_of
from agent.export.kubernetes.monitoring import pdwatch_monitoring, vllm_monitoring
from agent.export.kubernetes.network import network_policy
from agent.export.kubernetes.objects import CENTRAL_LABELS, document, kustomization
from agent.export.kubernetes.sidecar import sidecar_files

OF_VLLM = "vllm-"
"""Boards on vLLM's own metrics need rules of which only one family may be loaded; pdwatch's is the one here."""

WHOLE = (
    "Everything for a cluster that has the Prometheus operator and Grafana; base alone needs neither.",
    "The namespace is that of the vLLM pods.",
)


def kubernetes_files(config: Config) -> Mapping[str, str]:
    """A base, its components, and the kustomization that puts them together. Raises ConfigError where that is wrong."""
    text = _configuration(config)
    folders = {
        "base": _base(config, text),
        "components/monitoring": pdwatch_monitoring(config),
        "components/vllm-metrics": vllm_monitoring(config),
        "components/dashboards": _dashboards(config),
        "components/sidecar": sidecar_files(config),
    }
    files = {f"{folder}/{name}": content for folder, made in folders.items() for name, content in made.items()}
    whole = kustomization(
        WHOLE,
        # A right is given to an account of a certain namespace, so one has to be named.
        namespace=namespace_of(config) or "default",
        resources=["base"],
        components=["components/monitoring", "components/dashboards"],
    )
    return {"kustomization.yaml": whole, **files}


def _base(config: Config, text: str) -> Mapping[str, str]:
    files = {
        "deployment.yaml": document(deployment(config)),
        "service.yaml": document(service()),
        "state.yaml": document(state_claim()),
        "serviceaccount.yaml": document(service_account()),
        "networkpolicy.yaml": document(network_policy(config)),
    }
    if asks_kubernetes(config):
        files["rights.yaml"] = document(*rights())
    # The map's name carries a hash of the file, so that a change of it starts a new pod.
    config_map = {"name": CONFIG_MAP, "files": [CONFIG_FILE], "options": {"labels": dict(CENTRAL_LABELS)}}
    whole = kustomization(resources=sorted(files), configMapGenerator=[config_map])
    return {"kustomization.yaml": whole, CONFIG_FILE: text, **files}


def _dashboards(config: Config) -> Mapping[str, str]:
    boards = {
        name: text
        for name, text in dashboard_files(config).items()
        if name.endswith(".json") and not name.startswith(OF_VLLM)
    }
    maps = [{"name": f"pdwatch-{name.removesuffix('.json')}", "files": [name]} for name in boards]
    # A new name for each change would leave the old board beside the new one.
    options = {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}}
    whole = kustomization(component=True, generatorOptions=options, configMapGenerator=maps)
    return {"kustomization.yaml": whole, **boards}


def _configuration(config: Config) -> str:
    """The text of the configuration, as it was written: what is `${NAME}` in it stays so. Raises ConfigError."""
    if config.mode == "sidecar":
        raise ConfigError("export kubernetes: sidecars are made from the central configuration; export from that")
    if config.deployment is None:
        raise ConfigError("export kubernetes: 'deployment' is not set, and names this deployment on every metric")
    if config.tls is not None:
        raise ConfigError(
            "export kubernetes: probes and scrapes are made for a listener without TLS; leave out 'tls', and let an"
            " ingress or the mesh encrypt"
        )
    if config.file is None:
        raise ConfigError("export kubernetes: give the configuration as a file (-c FILE): it becomes a ConfigMap")
    try:
        text = Path(config.file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"export kubernetes: {config.file}: {error.strerror or error}") from None
    if any(secret in text for secret in _secrets(config)):
        raise ConfigError(
            f"export kubernetes: {config.file} holds a secret, and a ConfigMap is no place for one: write ${{NAME}}"
            " there and put NAME into the Secret pdwatch-secrets"
        )
    return text


def _secrets(value: object) -> Iterator[str]:
    """Every secret that is given, wherever in the configuration."""
    if isinstance(value, tuple):
        for item in value:
            yield from _secrets(item)
    elif is_dataclass(value):
        for field in fields(value):
            held = getattr(value, field.name)
            if field.metadata.get("secret") and isinstance(held, str) and held:
                yield held
            else:
                yield from _secrets(held)
