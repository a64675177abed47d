"""Where the pages are: targets, the pools they form, and the router in front. In: nodes. Out: frozen values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit, urlunsplit

from agent.config.access import AUTH, DEFAULT_TLS, NO_AUTH, TLS, Access, Auth, Tls, web_url
from agent.config.discovery import DISCOVERY, Discovery
from agent.config.fields import REQUIRED, Contradiction, Kind, build, choice, integer, section, setting
from agent.config.node import Node

RouterKind = Literal["llm-d-epp", "dynamo", "production-stack", "vllm-router", "smg", "gen-ai", "envoy", "auto"]
ROUTER_KINDS: tuple[RouterKind, ...] = get_args(RouterKind)

PoolRole = Literal["prefill", "decode", "both"]
POOL_ROLES: tuple[PoolRole, ...] = get_args(PoolRole)

_POOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_METRIC_PREFIX = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """One address that gives a metrics page. `url` is empty for a target that is only replayed, never fetched.

    `sidecar_url`: base URL of the pdwatch beside it, as discovery told it; "" where it told none.
    """

    name: str
    url: str = ""
    sidecar_url: str = ""


def read_targets(node: Node) -> tuple[Target, ...]:
    """Targets from a mapping of name to URL, or from a list of URLs, whose names are then host:port."""
    if isinstance(node.value, list):
        targets = [Target(host_and_port(url), url) for url in map(metrics_url, node.items())]
    else:
        targets = [Target(_target_name(child, name), metrics_url(child)) for name, child in node.mapping().items()]
    if not targets:
        raise node.error("holds no target")
    return tuple(targets)


def read_sidecars(node: Node) -> tuple[Target, ...]:
    """Base URLs by target's name."""
    return tuple(Target(name, web_url(child).rstrip("/")) for name, child in node.mapping().items())


def read_pages(node: Node) -> tuple[Target, ...]:
    """Pages by the name of the target that they stand beside."""
    return tuple(Target(name, metrics_url(child)) for name, child in node.mapping().items())


def metrics_url(node: Node) -> str:
    """A target's URL. Without a path it gets `/metrics`; `/metrics/` loses its slash.

    vLLM answers `/metrics/` with an empty page when it has several API servers, and `/metrics` with the real one.
    """
    parts = urlsplit(web_url(node))
    path = "/metrics" if parts.path in ("", "/", "/metrics/") else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def host_and_port(url: str) -> str:
    """`host:port` of a URL, with the scheme's own port where none is written; IPv6 hosts stay in brackets."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"[{host}]:{_port(url)}" if ":" in host else f"{host}:{_port(url)}"


def same_page(url: str) -> tuple[str, str, str, str]:
    """What two spellings of one address have in common, to find a target that is listed twice."""
    parts = urlsplit(url)
    return parts.scheme, host_and_port(url), parts.path, parts.query


def read_pool_name(name: str, node: Node) -> str:
    """A pool's name, which becomes a label and an objective's scope. Raises ConfigError."""
    if name == "system":
        raise node.error("'system' names the whole deployment in objectives; call the pool something else")
    if not _POOL_NAME.fullmatch(name):
        raise node.error("a pool's name has letters, digits, '-', '_' and '.', at most 63, a letter or digit first")
    return name


def read_metric_prefix(node: Node) -> str:
    """What a metric's name may begin with. Raises ConfigError."""
    text = node.scalar().strip()
    if not _METRIC_PREFIX.fullmatch(text):
        raise node.error(f"{text!r} cannot begin a metric's name; letters, digits, '_' and ':', no digit first")
    return text


METRIC_PREFIX = Kind("text", read_metric_prefix)
TARGETS = Kind("name: URL, or a list of URLs", read_targets, single=False, pairs=True)
SIDECARS = Kind("target: URL", read_sidecars, single=False, pairs=True)
PAGES = Kind("target: URL", read_pages, single=False, pairs=True)
ADDRESSES = "Addresses of the metrics pages; without a path: `/metrics`"


@dataclass(frozen=True, slots=True)
class Exporters:
    """Metrics pages beside the targets' own. A target without one, or of another host, is left out."""

    nixl: tuple[Target, ...] = setting(
        "nixl", PAGES, (), "Pages of NIXL's telemetry exporter by target; without a path: `/metrics`"
    )
    nixl_port: int | None = setting(
        "nixl_port", integer(1, 65535), None, "The same for every other target: the port on its host (http)"
    )


@dataclass(frozen=True, slots=True)
class Pool:
    """Targets that do the same work. `gpus_per_target` None: what is counted per GPU is then not known."""

    name: str
    role: PoolRole = setting(
        "role", choice(*POOL_ROLES), REQUIRED, "What these servers do: `prefill`, `decode` or `both`"
    )
    targets: tuple[Target, ...] = setting(
        "targets",
        TARGETS,
        (),
        ADDRESSES,
        default_says="required without `discovery`",
    )
    discovery: Discovery | None = setting("discovery", DISCOVERY, None, "Where more targets are found")
    gpus_per_target: int | None = setting(
        "gpus_per_target", integer(1), None, "GPUs behind one target, for throughput per GPU"
    )
    auth: Auth = setting("auth", AUTH, NO_AUTH, "Authentication at these targets")
    tls: Tls = setting("tls", TLS, DEFAULT_TLS, "TLS to these targets")
    sidecar_port: int | None = setting(
        "sidecar_port", integer(1, 65535), None, "Port of the pdwatch in sidecar mode on each target's host"
    )
    sidecars: tuple[Target, ...] = setting(
        "sidecars", SIDECARS, (), "The same by target, where a port is not enough: addresses of those pdwatch"
    )

    exporters: Exporters = setting("exporters", section(Exporters), Exporters(), "Pages beside the targets' own")

    def __post_init__(self) -> None:
        require_targets(self)
        names = {target.name for target in self.targets}
        for key, pages in (("sidecars", self.sidecars), ("exporters", self.exporters.nixl)):
            strangers = [page.name for page in pages if page.name not in names]
            if strangers and self.discovery is None:
                raise Contradiction(key, f"{strangers[0]!r} is no target of this pool")

    @property
    def access(self) -> Access:
        """How these targets are entered."""
        return Access(self.auth, self.tls)

    def sidecar_of(self, target: Target) -> str:
        """Base URL of the pdwatch beside a target: as named, else as discovered, else by port; "" for none."""
        for sidecar in self.sidecars:
            if sidecar.name == target.name:
                return sidecar.url
        if target.sidecar_url or self.sidecar_port is None or not target.url:
            return target.sidecar_url
        return other_port(target.url, self.sidecar_port)


def require_targets(group: Pool | Router) -> None:
    """Raise Contradiction where there is neither a target nor a way to find some."""
    if not group.targets and group.discovery is None:
        raise Contradiction("targets", f"'targets' is required: {ADDRESSES}; or 'discovery', to find them")


def other_port(page_url: str, port: int) -> str:
    """Base URL of what listens on another port of the host that a page is on."""
    host = urlsplit(page_url).hostname or ""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def read_pools(node: Node) -> tuple[Pool, ...]:
    """The pools of a mapping of name to section. Raises ConfigError."""
    return tuple(build(Pool, child, name=read_pool_name(name, child)) for name, child in node.mapping().items())


@dataclass(frozen=True, slots=True)
class Router:
    """What stands in front of the pools and sees the user's own times. Kind `auto`: told by its page."""

    kind: RouterKind = setting(
        "kind",
        choice(*ROUTER_KINDS),
        REQUIRED,
        "`llm-d-epp`, `dynamo`, `production-stack`, `vllm-router`, `smg`, `gen-ai`, `envoy` or `auto`",
    )
    targets: tuple[Target, ...] = setting(
        "targets",
        TARGETS,
        (),
        "Addresses of the router's metrics pages",
        default_says="required without `discovery`",
    )
    discovery: Discovery | None = setting("discovery", DISCOVERY, None, "Where more targets are found")
    prefix: str = setting(
        "prefix",
        METRIC_PREFIX,
        "",
        "What stands in place of the router's own beginning of names (`DYN_METRICS_PREFIX`)",
    )
    auth: Auth = setting("auth", AUTH, NO_AUTH, "Authentication at the router")
    tls: Tls = setting("tls", TLS, DEFAULT_TLS, "TLS to the router")

    def __post_init__(self) -> None:
        require_targets(self)

    @property
    def access(self) -> Access:
        """How these targets are entered."""
        return Access(self.auth, self.tls)


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or _DEFAULT_PORTS[parts.scheme]


def _target_name(node: Node, name: str) -> str:
    if not name or len(name) > 253 or not name.isprintable() or any(character.isspace() for character in name):
        raise node.error("a target's name is 1 to 253 printable characters without blanks")
    return name
