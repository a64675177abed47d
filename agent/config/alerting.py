"""Who is called: the receivers of alerts. In: nodes. Out: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.config.access import AUTH, DEFAULT_TLS, NO_AUTH, TLS, URL, Auth, Tls, refuse_both
from agent.config.fields import (
    PATH,
    REQUIRED,
    TEXT,
    Contradiction,
    Kind,
    build,
    choice,
    list_of,
    section,
    setting,
)
from agent.config.mute import Mute, read_label_pairs
from agent.config.node import Node

RESERVED_LABELS = (
    "alertname", "severity", "deployment", "scope", "objective", "code", "target", "engine", "process",
)  # fmt: skip


def _one_of(owner: object, name: str) -> None:
    refuse_both(owner, name)
    if not getattr(owner, name) and not getattr(owner, f"{name}_file"):
        raise Contradiction(name, f"'{name}' or '{name}_file' is required")


def read_labels(node: Node) -> tuple[tuple[str, str], ...]:
    """Labels for every alert: valid names, none of those that an alert has already, values as text."""
    for name, child in node.mapping().items():
        if name in RESERVED_LABELS:
            raise child.error(f"{name!r} is set by pdwatch itself")
    return read_label_pairs(node)


def _as_url(node: Node) -> Node:
    """A plain URL stands for a section that holds nothing else."""
    if isinstance(node.value, str):
        return Node({"url": node}, node.path, node.where, node.base)
    return node


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """One Alertmanager; every one of the list gets every alert."""

    url: str = setting("url", URL, REQUIRED, "Base URL of an Alertmanager")
    auth: Auth = setting("auth", AUTH, NO_AUTH, "Authentication there")
    tls: Tls = setting("tls", TLS, DEFAULT_TLS, "TLS there")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of Alertmanager's webhook form. Its URL may hold a secret and is masked where it is shown."""

    url: str | None = setting("url", URL, None, "Where alerts are posted", secret=True)
    url_file: str | None = setting("url_file", PATH, None, "File that holds the URL")
    auth: Auth = setting("auth", AUTH, NO_AUTH, "Authentication there")
    tls: Tls = setting("tls", TLS, DEFAULT_TLS, "TLS there")

    def __post_init__(self) -> None:
        _one_of(self, "url")


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """PagerDuty's Events API v2."""

    routing_key: str | None = setting("routing_key", TEXT, None, "Integration key of the service", secret=True)
    routing_key_file: str | None = setting("routing_key_file", PATH, None, "File that holds the integration key")
    url: str = setting("url", URL, "https://events.pagerduty.com/v2/enqueue", "Address of the Events API")

    def __post_init__(self) -> None:
        _one_of(self, "routing_key")


@dataclass(frozen=True, slots=True)
class Slack:
    """A Slack incoming webhook."""

    url: str | None = setting("url", URL, None, "URL of the incoming webhook", secret=True)
    url_file: str | None = setting("url_file", PATH, None, "File that holds the URL")

    def __post_init__(self) -> None:
        _one_of(self, "url")


@dataclass(frozen=True, slots=True)
class Alerting:
    """Who pages, with which labels, and where to."""

    path: Literal["direct", "rules"] = setting(
        "path", choice("direct", "rules"), "direct", "Who pages: `direct` (pdwatch) or `rules` (Prometheus)"
    )
    labels: tuple[tuple[str, str], ...] = setting(
        "labels",
        Kind("label: text", read_labels, single=False, pairs=True),
        (),
        "Labels added to every alert",
    )
    alertmanagers: tuple[Alertmanager, ...] = setting(
        "alertmanagers",
        list_of(lambda node: build(Alertmanager, _as_url(node)), "list of URLs or sections", Alertmanager),
        (),
        "Every one gets every alert",
    )
    webhooks: tuple[Webhook, ...] = setting(
        "webhooks",
        list_of(lambda node: build(Webhook, _as_url(node)), "list of URLs or sections", Webhook),
        (),
        "Receivers",
    )
    pagerduty: PagerDuty | None = setting("pagerduty", section(PagerDuty), None, "PagerDuty, or null")
    slack: Slack | None = setting("slack", section(Slack), None, "Slack, or null")
    mute: tuple[Mute, ...] = setting(
        "mute", list_of(lambda node: build(Mute, node), "list of sections", Mute), (), "Maintenance windows"
    )

    @property
    def sends_directly(self) -> bool:
        """Any receiver that pdwatch itself calls."""
        return bool(self.alertmanagers or self.webhooks or self.pagerduty or self.slack)
