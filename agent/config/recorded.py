"""Whose recorded targets are whose, where a configuration finds its targets. In: a configuration, names in a recording.
Out: the configuration with those names in its pools.

A recording holds names and no labels. One belongs to the pool that finds its targets and whose name, or else role, is a
word of it (`vllm-decode-7f9c`); where several pools or none fit, it is left out, as any name that is not configured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from agent.config.pools import Pool, Target
from agent.config.types import Config

_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9]+")


def config_with_recorded(config: Config, target_names: Iterable[str]) -> Config:
    """The same configuration where every pool lists its targets."""
    finding = [pool for pool in config.pools if pool.discovery is not None]
    if not finding:
        return config
    listed = {target.name for pool in config.pools for target in pool.targets}
    found: dict[str, list[Target]] = {pool.name: [] for pool in finding}
    for name in sorted(set(target_names) - listed):
        pool = _pool_of(name, finding)
        if pool is not None:
            found[pool.name].append(Target(name))
    pools = (replace(pool, targets=(*pool.targets, *found.get(pool.name, ()))) for pool in config.pools)
    return replace(config, pools=tuple(pools))


def _pool_of(name: str, pools: list[Pool]) -> Pool | None:
    for fitting in (
        [pool for pool in pools if _is_within(pool.name, name)],
        [pool for pool in pools if _is_within(pool.role, name)],
    ):
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _is_within(words: str, name: str) -> bool:
    """Whether the words stand in the name, one after another."""
    wanted, there = _BETWEEN_WORDS.split(words), _BETWEEN_WORDS.split(name)
    return any(there[at : at + len(wanted)] == wanted for at in range(len(there)))
