"""Traces: what may be sent to pdwatch, what it is taken for, and where it goes on to. In: nodes. Out: frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from agent.config.access import AUTH, DEFAULT_TLS, NO_AUTH, TLS, URL, Auth, Tls, refuse_both, web_url
from agent.config.fields import PATH, REQUIRED, TEXT, Kind, build, number, setting, size
from agent.config.listening import LISTEN
from agent.config.node import Node


@dataclass(frozen=True, slots=True)
class Forward:
    """The collector that gets every body unchanged."""

    url: str = setting("url", URL, REQUIRED, "Address for OTLP/HTTP traces, such as http://collector:4318/v1/traces")
    auth: Auth = setting("auth", AUTH, NO_AUTH, "Authentication there")
    tls: Tls = setting("tls", TLS, DEFAULT_TLS, "TLS there")


def _read_forward(node: Node) -> Forward:
    if isinstance(node.value, str):
        node = Node({"url": node}, node.path, node.where, node.base)
    return build(Forward, node)


def _read_services(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple((name, TEXT.read(child)) for name, child in node.mapping().items())


def read_trace_link(node: Node) -> str:
    """A URL with `{trace}` where the trace id goes, and perhaps `{request}`. Raises ConfigError."""
    text = web_url(node)
    if "{trace}" not in text:
        raise node.error("has no {trace}, where the trace id goes: https://jaeger.example/trace/{trace}")
    return text


TRACE_LINK = Kind("URL with {trace}", read_trace_link)


@dataclass(frozen=True, slots=True)
class Traces:
    """Spans over OTLP/HTTP on `/v1/traces`, and over OTLP/gRPC where an address is given for it."""

    services: tuple[tuple[str, str], ...] = setting(
        "services",
        Kind("mapping of name to target or pool", _read_services, single=False, pairs=True),
        (),
        "Whose spans are whose: service.name, service.instance.id, k8s.pod.name or host.name -> target or pool;"
        " a name that is a target's or a pool's already needs no entry",
    )
    grpc_listen: str | None = setting(
        "grpc_listen", LISTEN, None, "Address for spans over OTLP/gRPC (usual port: 4317); needs the extra `grpc`"
    )
    bearer_token: str | None = setting(
        "bearer_token", TEXT, None, "Token that senders must show as `Authorization: Bearer`", secret=True
    )
    bearer_token_file: str | None = setting("bearer_token_file", PATH, None, "File that holds this token")
    forward: Forward | None = setting(
        "forward",
        Kind("section", _read_forward, section=Forward, single=False),
        None,
        "Collector that gets everything unchanged",
    )
    max_body_bytes: int = setting(
        "max_body_bytes", size(1024), 8 << 20, "A larger body is refused, before and after decompression"
    )
    spans_per_second: float = setting(
        "spans_per_second", number(0, above=True), 5000.0, "More spans than this, on average, are dropped and counted"
    )

    def __post_init__(self) -> None:
        refuse_both(self, "bearer_token")
