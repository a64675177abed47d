"""Which target belongs to which pool. In: a configuration, the last good list of every source. Out: the configuration
with those targets in it, and sentences on what could not be taken.

Pure: the same lists always give the same configuration. Listed targets come before found ones, pools in the order of
the configuration; a name or an address that is there already is not taken a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.config import Config, Discovery, Pool, Router, Target
from agent.config.discovery import Source
from agent.config.pools import other_port, same_page
from agent.sources.discovery.found import Found, Listing

MOST_TARGETS_OF_A_POOL = 512
ROUTER = "router"


@dataclass(frozen=True, slots=True)
class Assigned:
    """`notes`: (pool, sentence). `found`: pool -> targets that discovery gave it, for pools that have one."""

    config: Config
    notes: tuple[tuple[str, str], ...]
    found: Mapping[str, int]


def assigned(config: Config, listings: Mapping[Source, Listing], before: Config | None = None) -> Assigned:
    """`config` with the found targets. A source that has not answered yet leaves its pool as it was in `before`."""
    taken = _Taken()
    for group in _groups(config):
        for target in group.targets:
            taken.add(target)
    notes: list[tuple[str, str]] = []
    counts: dict[str, int] = {}
    pools: list[Pool] = []
    for pool in config.pools:
        earlier = None if before is None else before.pool(pool.name)
        targets = _targets(pool.name, pool, earlier, listings, taken, notes)
        if pool.discovery is not None:
            counts[pool.name] = len(targets)
        pools.append(replace(pool, targets=(*pool.targets, *targets)) if targets else pool)
    router = config.router
    if router is not None:
        targets = _targets(ROUTER, router, None if before is None else before.router, listings, taken, notes)
        if router.discovery is not None:
            counts[ROUTER] = len(targets)
        router = replace(router, targets=(*router.targets, *targets)) if targets else router
    return Assigned(replace(config, pools=tuple(pools), router=router), tuple(notes), counts)


class _Taken:
    """Names and addresses that are in some pool already."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._pages: dict[tuple[str, str, str, str], str] = {}

    def add(self, target: Target) -> None:
        self._names.add(target.name)
        self._pages[same_page(target.url)] = target.name

    def conflict(self, target: Target) -> str | None:
        """Why a target cannot be taken, "" where it is simply the same once more, None where it can."""
        page = self._pages.get(same_page(target.url))
        if target.name in self._names:
            return "" if page == target.name else f"{target.name} is the name of another target already"
        return f"{target.name} has the same address as target {page}" if page is not None else None


def _targets(
    name: str,
    group: Pool | Router,
    earlier: Pool | Router | None,
    listings: Mapping[Source, Listing],
    taken: _Taken,
    notes: list[tuple[str, str]],
) -> list[Target]:
    discovery = group.discovery
    if discovery is None:
        return []
    listing = listings.get(discovery.source)
    if listing is None:
        wanted = list(earlier.targets) if earlier is not None else []
    else:
        wanted = [_target(found, discovery) for found in matching(discovery, listing)]
    if len(wanted) > MOST_TARGETS_OF_A_POOL:
        notes.append((name, f"{len(wanted)} targets match, more than {MOST_TARGETS_OF_A_POOL}: none is taken over"))
        wanted = list(earlier.targets) if earlier is not None else []
    targets: list[Target] = []
    for target in wanted:
        conflict = taken.conflict(target)
        if conflict is None:
            taken.add(target)
            targets.append(target)
        elif conflict and listing is not None:
            notes.append((name, f"{conflict}; it is left out of pool {name}"))
    return targets


def matching(discovery: Discovery, listing: Listing) -> Sequence[Found]:
    """The listed targets that have all the labels asked for."""
    return [found for found in listing.targets if set(discovery.labels) <= set(found.labels)]


def _target(found: Found, discovery: Discovery) -> Target:
    url = f"{found.scheme or discovery.scheme}://{found.address}{found.path or discovery.path}"
    return Target(found.name, url, other_port(url, int(found.sidecar)) if found.sidecar else "")


def _groups(config: Config) -> list[Pool | Router]:
    return [*config.pools, *([config.router] if config.router is not None else [])]
