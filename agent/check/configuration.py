"""What can be said of a configuration without asking anybody. In: a `Config`. Out: findings.

Only what loading accepts is looked at here: settings that contradict each other, promises that can never be judged.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.check.findings import Finding
from agent.config import Auth, Config, Objective, Pool, Tls, duration_text
from agent.config.fields import PATH, keys_of

LEAST_SCRAPES_IN_WINDOW = 4
LONG_WINDOW_SECONDS = 3600.0
NEVER_ON_PREFILL = frozenset({"tpot", "tpot_token", "itl", "decode", "acceptance_length"})
"""What begins with the second token: a prefill leg ends with its first."""


def configuration_findings(config: Config, is_readable: Callable[[str], bool]) -> Iterator[Finding]:
    """`is_readable`: whether the file of a path can be read (`readable_file`, or a test's)."""
    yield from _alerting(config)
    yield from _pools(config)
    for objective in config.objectives:
        yield from _objective(config, objective)
    yield from _access(config, is_readable)
    longest = max((objective.window_seconds for objective in config.objectives), default=0.0)
    if config.state_dir is None and longest > LONG_WINDOW_SECONDS:
        text = f"a window of {duration_text(longest)} begins anew with every restart of pdwatch"
        yield Finding("history_not_kept", "info", ("state_dir",), text, "name a folder that survives restarts")


def readable_file(path: str) -> bool:
    """Whether this process can read the file now."""
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def _alerting(config: Config) -> Iterator[Finding]:
    alerting = config.alerting
    given = [name for name in ("alertmanagers", "webhooks", "pagerduty", "slack") if getattr(alerting, name)]
    if alerting.path == "rules" and not config.deployment:
        text = "Prometheus' rules page for this deployment, and nothing tells its alerts from another's"
        yield Finding("deployment_missing", "error", ("deployment",), text, "name the deployment")
    if alerting.path == "rules" and given:
        text = f"rules page, yet receivers for direct paging are given ({', '.join(given)}): one incident, two senders"
        yield Finding(
            "wired_twice", "warning", ("alerting.path",), text, "take the receivers out, or set alerting.path to direct"
        )
    if alerting.path == "direct" and not given:
        text = "no receiver: verdicts are shown and exported, nobody is called"
        help_ = "give alertmanagers, webhooks, pagerduty or slack; or set alerting.path to rules where Prometheus pages"
        yield Finding("nobody_paged", "info", ("alerting",), text, help_)


def _pools(config: Config) -> Iterator[Finding]:
    roles = {pool.role for pool in config.pools}
    for missing, other in (("prefill", "decode"), ("decode", "prefill")):
        if missing not in roles and other in roles and config.mode == "central":
            text = f"there is a {other} pool and no {missing} pool: the user's TTFT cannot be put together"
            yield Finding("pool_missing", "warning", ("pools",), text, f"add the {missing} servers as a pool")
    unknown = tuple(f"pools.{pool.name}" for pool in config.pools if pool.gpus_per_target is None)
    if unknown:
        text = "throughput per GPU and goodput stay unknown"
        yield Finding("gpus_unknown", "info", unknown, text, "set gpus_per_target")


def _objective(config: Config, objective: Objective) -> Iterator[Finding]:
    where = (f"objective {objective.name}",)
    pool = config.pool(objective.scope)
    if pool is not None and pool.role == "prefill" and objective.indicator in NEVER_ON_PREFILL:
        text = f"a prefill leg ends with its first token: {objective.indicator} does not exist in pool {pool.name}"
        yield Finding("objective_not_applicable", "warning", where, text, f"set scope to {_decoding(config)}")
    split = any(pool.role != "both" for pool in config.pools)
    is_composed = split and config.dispatch == "serial" and config.router is None
    if is_composed and objective.scope == "system" and objective.indicator == "ttft" and objective.statistic != "mean":
        text = (
            "with serial dispatch the user's TTFT is a prefill leg and a decode leg; their means add up, "
            f"a {objective.statistic} does not"
        )
        help_ = "configure the router that measures it, send traces, or promise the mean or each pool's own TTFT"
        yield Finding("percentile_not_composable", "warning", where, text, help_)
    interval = config.scrape.interval_seconds
    if objective.window_seconds < LEAST_SCRAPES_IN_WINDOW * interval:
        text = f"a window of {duration_text(objective.window_seconds)} with a scrape every {duration_text(interval)}"
        help_ = f"hold at least {LEAST_SCRAPES_IN_WINDOW} scrapes: a longer window or a shorter interval"
        yield Finding("window_few_scrapes", "warning", where, text, help_)


def _decoding(config: Config) -> str:
    names = [pool.name for pool in config.pools if pool.role in ("decode", "both")]
    return " or ".join(names) or "a decode pool"


def _access(config: Config, is_readable: Callable[[str], bool]) -> Iterator[Finding]:
    for path, section in _sections("", config):
        if isinstance(section, Tls) and section.insecure_skip_verify:
            text = "any certificate is accepted, so anybody in between can read secrets and forge pages"
            yield Finding("tls_not_verified", "warning", (path,), text, "give the authority as ca_file instead")
        for field in keys_of(type(section)):
            value = getattr(section, field.name)
            if field.metadata["kind"] is PATH and value and field.name.endswith("_file") and not is_readable(value):
                key = f"{path}.{field.metadata['key']}"
                yield Finding("file_unreadable", "error", (key,), f"{value}: cannot be read", "check path and rights")
        auth = getattr(section, "auth", None)
        if isinstance(auth, Auth) and auth.is_given and any(map(_is_open, _urls(section))):
            text = "a secret is sent over plain http: everybody in between can read it"
            yield Finding("secret_over_http", "warning", (f"{path}.auth",), text, "use https")


def _sections(path: str, section: Any) -> Iterator[tuple[str, Any]]:
    """Every section of the configuration with its key path."""
    yield path, section
    for field in keys_of(type(section)):
        here = ".".join(part for part in (path, field.metadata["key"]) if part)
        value = getattr(section, field.name)
        for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
            if dataclasses.is_dataclass(item):
                below = f"{here}.{item.name}" if isinstance(item, Pool) else f"{here}[{index}]"
                yield from _sections(below if isinstance(value, tuple) else here, item)


def _urls(section: Any) -> list[str]:
    return [target.url for target in getattr(section, "targets", ())] or [getattr(section, "url", None) or ""]


def _is_open(url: str) -> bool:
    """Plain http to another host."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return parts.scheme == "http" and bool(host) and not is_local
