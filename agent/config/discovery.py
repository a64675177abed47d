"""Where targets are found instead of being listed. In: nodes. Out: frozen values; equal ones are one source.

Two pools with the same source settings share one source and tell their targets apart by `labels`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.config.access import AUTH, DEFAULT_TLS, NO_AUTH, TLS, URL, Auth, Tls
from agent.config.fields import (
    PATH,
    REQUIRED,
    TEXT,
    Contradiction,
    Kind,
    choice,
    duration,
    integer,
    list_of,
    section,
    setting,
)
from agent.config.node import Node

DnsType = Literal["A", "AAAA", "SRV"]

_INTERVAL = duration(1, 3600)


def _read_pattern(node: Node) -> str:
    """A path or a glob of JSON and YAML files, from the folder of the configuration."""
    text = str(TEXT.read(node))
    if not text.endswith((".json", ".yaml", ".yml")):
        raise node.error(f"{text!r} must end with .json, .yaml or .yml")
    return str(Path(node.base, text).expanduser())


def _read_dns_name(node: Node) -> str:
    text = str(TEXT.read(node))
    if len(text) > 253 or any(character.isspace() or character in ":/@" for character in text):
        raise node.error(f"{text!r} is not a name in DNS; give the host alone, and the port as 'port'")
    return text


def _read_port(node: Node) -> str:
    """A port's number, or the name that a container gives it."""
    text = str(TEXT.read(node))
    if text.isdigit() and not 1 <= int(text) <= 65535:
        raise node.error(f"{text} is not a port: 1 to 65535, or a container port's name")
    if len(text) > 63 or not text.replace("-", "").isalnum():
        raise node.error(f"{text!r} is neither a port's number nor a container port's name")
    return text


def _read_path(node: Node) -> str:
    text = str(TEXT.read(node))
    if not text.startswith("/") or any(character.isspace() or character in "?#" for character in text):
        raise node.error(f"{text!r} is not a path such as /metrics")
    return text


def _read_labels(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(TEXT.read(child))) for name, child in node.mapping().items())


@dataclass(frozen=True, slots=True)
class FileSd:
    """Files in the form of Prometheus' file_sd: groups of addresses with labels."""

    files: tuple[str, ...] = setting(
        "files", list_of(_read_pattern, "list of paths"), REQUIRED, "JSON or YAML files; `*` and `?` in a file's name"
    )
    interval_seconds: float = setting("interval", _INTERVAL, 5.0, "How often files are looked at")

    def __post_init__(self) -> None:
        if not self.files:
            raise Contradiction("files", "holds no path")


@dataclass(frozen=True, slots=True)
class HttpSd:
    """The same groups as JSON over HTTP."""

    url: str = setting("url", URL, REQUIRED, "Address of the list")
    interval_seconds: float = setting("interval", _INTERVAL, 30.0, "Time between two requests")
    auth: Auth = setting("auth", AUTH, NO_AUTH, "Authentication there")
    tls: Tls = setting("tls", TLS, DEFAULT_TLS, "TLS there")


@dataclass(frozen=True, slots=True)
class Dns:
    """Names whose addresses, or services, are the targets."""

    names: tuple[str, ...] = setting(
        "names", list_of(_read_dns_name, "list of names"), REQUIRED, "Names to ask for, such as a headless service's"
    )
    type: DnsType = setting(
        "type", choice("A", "AAAA", "SRV"), "A", "What to ask for; `SRV` gives ports and needs the extra `dns`"
    )
    port: int | None = setting("port", integer(1, 65535), None, "Port of the targets; required unless SRV gives it")
    interval_seconds: float = setting("interval", _INTERVAL, 30.0, "Time between two questions")

    def __post_init__(self) -> None:
        if not self.names:
            raise Contradiction("names", "holds no name")
        if self.port is None and self.type != "SRV":
            raise Contradiction("port", f"{self.type} records have no port; give it as 'port'")


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """Pods of one namespace. Inside a cluster everything but the port is known from the pod's own service account."""

    port: str = setting("port", Kind("port name or number", _read_port), REQUIRED, "Port that gives the metrics page")
    selector: str = setting("selector", TEXT, "", "Label selector, such as `app=vllm,role=decode`; empty: all pods")
    namespace: str | None = setting("namespace", TEXT, None, "Namespace; pdwatch's own unless given")
    interval_seconds: float = setting("interval", _INTERVAL, 15.0, "Time between two lists")
    api_url: str | None = setting("api_url", URL, None, "Address of the API server; that of the cluster unless given")
    token_file: str | None = setting("token_file", PATH, None, "Bearer token; the service account's unless given")
    ca_file: str | None = setting(
        "ca_file", PATH, None, "Authority of the API server; the service account's unless given"
    )


Source = FileSd | HttpSd | Dns | Kubernetes


@dataclass(frozen=True, slots=True)
class Discovery:
    """One source of targets, which of its targets are meant, and how their pages are addressed."""

    file_sd: FileSd | None = setting("file_sd", section(FileSd), None, "Files in Prometheus' form")
    http_sd: HttpSd | None = setting("http_sd", section(HttpSd), None, "A list over HTTP")
    dns: Dns | None = setting("dns", section(Dns), None, "Records in DNS")
    kubernetes: Kubernetes | None = setting("kubernetes", section(Kubernetes), None, "Pods")
    labels: tuple[tuple[str, str], ...] = setting(
        "labels",
        Kind("label: text", _read_labels, single=False, pairs=True),
        (),
        "Only targets with all these labels, so that one source serves several pools",
    )
    scheme: Literal["http", "https"] = setting(
        "scheme", choice("http", "https"), "http", "Scheme of the pages, unless a target's `__scheme__` says otherwise"
    )
    path: str = setting(
        "path", Kind("path", _read_path), "/metrics", "Path of the pages, unless `__metrics_path__` says otherwise"
    )

    def __post_init__(self) -> None:
        given = [name for name in ("file_sd", "http_sd", "dns", "kubernetes") if getattr(self, name) is not None]
        if len(given) != 1:
            said = f"not {' and '.join(given)} together" if given else "none is given"
            raise Contradiction(given[-1] if given else "", f"one of file_sd, http_sd, dns, kubernetes: {said}")

    @property
    def source(self) -> Source:
        """What is asked; equal for pools that share it."""
        source = self.file_sd or self.http_sd or self.dns or self.kubernetes
        assert source is not None  # as __post_init__ saw to it
        return source

    @property
    def kind(self) -> str:
        """The source's name in the configuration."""
        return next(name for name in ("file_sd", "http_sd", "dns", "kubernetes") if getattr(self, name) is not None)


DISCOVERY = section(Discovery)
