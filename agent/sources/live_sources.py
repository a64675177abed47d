"""Everything that watches the live world of one configuration. In: a configuration. Out: observations, and the
configuration again whenever discovery finds other targets.

Pages over HTTP, processes of this host, readings of the pdwatch elsewhere, and discovery: one call to `reconfigure` or
one changed list reaches all of them, and whoever listens hears of a target before its first observation comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from agent.config import Config
from agent.model import Observation
from agent.sources.clock import Clock
from agent.sources.discovery import DiscoveryFollower
from agent.sources.http import PageSource
from agent.sources.local_processes import ProcessSource
from agent.sources.sidecars import SidecarSource

Emit = Callable[[Observation], None]


class LiveSources:
    """`emit_local`: takes what is read of this host itself, `emit` the rest. `own`: read pdwatch's own process too.

    `changed` is called with the configuration and its targets as they are now, after every change but the first.
    """

    def __init__(
        self,
        config: Config,
        emit: Emit,
        clock: Clock,
        changed: Callable[[Config], None] = lambda _: None,
        *,
        emit_local: Emit | None = None,
        own: bool = False,
    ) -> None:
        self._changed = changed
        self.discovery = DiscoveryFollower(config, self._retarget, clock)
        self.pages = PageSource(config, emit, clock)
        self.processes = ProcessSource(config, emit_local or emit, clock, own=own)
        self.sidecars = SidecarSource(config, emit, clock)

    @property
    def parts(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """What has to run, by name."""
        return {
            "pages": self.pages.run,
            "processes": self.processes.run,
            "sidecars": self.sidecars.run,
            "discovery": self.discovery.run,
        }

    @property
    def skipped_scrapes(self) -> int:
        """Scrapes left out because the one before still ran, of targets that are there now."""
        return sum(work.skipped for work in self.pages.work.values())

    def reconfigure(self, config: Config) -> None:
        """Watches by another configuration from now on."""
        self._retarget(self.discovery.reconfigure(config))

    def _retarget(self, config: Config) -> None:
        self._changed(config)
        self.pages.retarget(config)
        self.processes.retarget(config)
        self.sidecars.retarget(config)
