"""Pages beside a target's own, of libraries inside its server, on ports of theirs. In: a `Config`. Out: the pages.

A page has a name of its own, `decode-0/nixl`, under which it is fetched, recorded and replayed; it is no target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.config.access import Access
from agent.config.pools import other_port
from agent.config.types import Config

NIXL_SUFFIX = "/nixl"


@dataclass(frozen=True, slots=True)
class ExporterPage:
    """NIXL's telemetry of one target. `url` is empty where it is only replayed."""

    name: str
    target: str
    url: str
    access: Access


def exporter_pages(config: Config) -> Iterator[ExporterPage]:
    """The pages of all targets that have one: as named, else on the pool's port; entered as the target is."""
    for pool in config.pools:
        named = {page.name: page.url for page in pool.exporters.nixl}
        port = pool.exporters.nixl_port
        for target in pool.targets:
            url = named.get(target.name)
            if url is None and port is not None and target.url:
                url = f"{other_port(target.url, port)}/metrics"
            if url is not None:
                yield ExporterPage(target.name + NIXL_SUFFIX, target.name, url, pool.access)
