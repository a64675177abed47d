"""One reader for each target: the configuration comes in, page readers and router readers by name go out."""

from __future__ import annotations

from agent.config import Config
from agent.reading.page import PageReader
from agent.reading.routers import RouterReader


def readers_of(config: Config) -> dict[str, PageReader | RouterReader]:
    """Target -> its reader; every reader follows one target only."""
    readers: dict[str, PageReader | RouterReader] = {
        target.name: PageReader(prefix=config.prefix) for pool in config.pools for target in pool.targets
    }
    if config.router is not None:
        for target in config.router.targets:
            readers[target.name] = RouterReader(config.router.kind, config.router.prefix)
    return readers
