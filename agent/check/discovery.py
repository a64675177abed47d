"""What discovery finds now. In: a configuration. Out: the same with the found targets, and findings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from agent.check.findings import Finding, Level
from agent.config import Config
from agent.sources.clock import Clock
from agent.sources.discovery import DiscoveryFollower, found_once
from agent.sources.discovery.assign import ROUTER
from agent.verdicts.wording import plural

SHOWN_NAMES = 8


def discovered(config: Config) -> tuple[Config, list[Finding]]:
    """Asks every source once."""
    return asyncio.run(discover(config))


async def discover(config: Config, clock: Clock | None = None) -> tuple[Config, list[Finding]]:
    """As `discovered`, inside a running loop."""
    follower = await found_once(config, clock)
    return follower.current, list(_findings(follower))


def _findings(follower: DiscoveryFollower) -> Iterator[Finding]:
    for work in follower.work:
        where = tuple(_place(pool) for pool in work.pools)
        if work.failure:
            level: Level = "error" if work.listing is None else "warning"
            help_ = "while pdwatch runs, the last list stands; at a start there is none"
            yield Finding("discovery_failed", level, where, work.failure, help_)
    for pool, note in follower.notes:
        yield Finding("discovery_failed", "warning", (_place(pool),), note, "correct the list, or the labels")
    for pool, count in follower.found:
        if count:
            text = f"{plural(count, 'target')} found: {', '.join(_names(follower, pool, count))}"
            yield Finding("discovery_found", "info", (_place(pool),), text)
        else:
            answered = [work for work in follower.work if pool in work.pools and work.listing is not None]
            if answered:
                listed = sum(len(work.listing.targets) for work in answered if work.listing is not None)
                text = f"the list has {plural(listed, 'target')}, and none of them matches"
                yield Finding("pool_empty", "error", (_place(pool),), text, "compare discovery.labels with the list")


def _place(pool: str) -> str:
    return f"{pool}.discovery" if pool == ROUTER else f"pools.{pool}.discovery"


def _names(follower: DiscoveryFollower, pool: str, count: int) -> list[str]:
    group = follower.current.router if pool == ROUTER else follower.current.pool(pool)
    names = [target.name for target in group.targets[-count:]] if group is not None else []
    return names if len(names) <= SHOWN_NAMES else [*names[:SHOWN_NAMES], f"and {len(names) - SHOWN_NAMES} more"]
