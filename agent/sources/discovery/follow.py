"""All sources, asked again and again. In: a configuration, the world. Out: configurations with targets, as they change.

Whatever fails, the last good list of a source stands: an error never empties a pool. What fails, and since when, is
kept to be shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp

from agent.config import Config, Discovery, Dns, FileSd, HttpSd, Kubernetes, Scrape
from agent.config.discovery import Source
from agent.sources.clock import Clock, SystemClock
from agent.sources.discovery.assign import ROUTER, Assigned, assigned
from agent.sources.discovery.dns import DnsLists
from agent.sources.discovery.files import FileLists
from agent.sources.discovery.found import DiscoveryError, Listing
from agent.sources.discovery.pods import PodLists
from agent.sources.discovery.web import WebList
from agent.sources.http import open_session

Look = Callable[[], Awaitable[Listing]]
LookOf = Callable[[Source, aiohttp.ClientSession, Clock], Look]
JSON_HEADERS = {"Accept": "application/json"}


@dataclass(slots=True)
class SourceWork:
    """What one source did. Times are unix seconds; `failures`: rounds that failed, or left something out."""

    kind: str
    pools: tuple[str, ...] = ()
    listing: Listing | None = None
    rounds: int = 0
    failures: int = 0
    succeeded: float | None = None
    failing_since: float | None = None
    failure: str = ""


class DiscoveryFollower:
    """`changed` is called in the event loop with every configuration that differs from the one before.

    `config` is as it was configured; `current` the same with the targets that were found.
    """

    def __init__(
        self,
        config: Config,
        changed: Callable[[Config], None],
        clock: Clock | None = None,
        look_of: LookOf | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._changed = changed
        self._look_of = look_of or _look_of
        self._sources: dict[Source, SourceWork] = {}
        self._again = asyncio.Event()
        self._assigned = Assigned(config, (), {})
        self._configure(config)

    @property
    def current(self) -> Config:
        """The configuration with the targets as they are known now."""
        return self._assigned.config

    @property
    def work(self) -> Sequence[SourceWork]:
        """What each source did, in the order of the configuration."""
        return list(self._sources.values())

    @property
    def found(self) -> Iterable[tuple[str, int]]:
        """(pool, targets that were found for it), for pools that have a source."""
        return self._assigned.found.items()

    @property
    def notes(self) -> Sequence[tuple[str, str]]:
        """(pool, sentence) on targets that could not be taken over."""
        return self._assigned.notes

    @property
    def answered(self) -> bool:
        """Every source has been asked once, whatever it answered."""
        return all(work.rounds for work in self._sources.values())

    def reconfigure(self, config: Config) -> Config:
        """Follows another configuration; sources that stay keep their lists. Returns it with the targets known now."""
        self._configure(config)
        self._again.set()
        return self.current

    async def run(self) -> None:
        """Asks every source at its own interval until cancelled."""
        tasks: dict[Source, asyncio.Task[None]] = {}
        async with open_session(Scrape(), JSON_HEADERS) as session, asyncio.TaskGroup() as group:
            while True:
                self._again.clear()
                for source in [source for source in tasks if source not in self._sources]:
                    tasks.pop(source).cancel()
                for source in [source for source in self._sources if source not in tasks]:
                    tasks[source] = group.create_task(self._follow(source, session), name=f"discovery {source}")
                await self._again.wait()

    async def once(self) -> None:
        """Asks every source one time."""
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(open_session(Scrape(), JSON_HEADERS))
            looks = [(source, self._look_of(source, session, self._clock)) for source in self._sources]
            await asyncio.gather(*(self._round(source, look) for source, look in looks))

    def _configure(self, config: Config) -> None:
        self._config = config
        pools: dict[Source, list[str]] = {}
        kinds: dict[Source, str] = {}
        for name, discovery in _discoveries(config):
            if discovery is not None:
                pools.setdefault(discovery.source, []).append(name)
                kinds[discovery.source] = discovery.kind
        self._sources = {source: self._sources.get(source, SourceWork(kinds[source])) for source in pools}
        for source, names in pools.items():
            self._sources[source].pools = tuple(names)
        self._assign()

    def _assign(self) -> bool:
        """Brings `current` up to date; True where it is another than before."""
        before = self._assigned.config
        listings = {source: work.listing for source, work in self._sources.items() if work.listing is not None}
        self._assigned = assigned(self._config, listings, before)
        return self._assigned.config != before

    async def _follow(self, source: Source, session: aiohttp.ClientSession) -> None:
        look = self._look_of(source, session, self._clock)
        due = self._clock.steady()
        while True:
            await self._round(source, look)
            due = max(due + source.interval_seconds, self._clock.steady())
            await self._clock.sleep_until(due)

    async def _round(self, source: Source, look: Look) -> None:
        work = self._sources.get(source)
        if work is None:
            return  # the configuration has just lost it
        failure = ""
        try:
            listing = await look()
        except DiscoveryError as error:
            failure = error.text
        else:
            work.listing, work.succeeded = listing, self._clock.wall()
            failure = "; ".join(listing.notes[:3]) + (
                f"; and {len(listing.notes) - 3} more" if listing.notes[3:] else ""
            )
        work.rounds += 1
        if failure:
            work.failures += 1
            work.failing_since = self._clock.wall() if work.failing_since is None else work.failing_since
        else:
            work.failing_since = None
        work.failure = failure
        if self._sources.get(source) is work and self._assign():
            self._changed(self.current)


async def found_once(config: Config, clock: Clock | None = None) -> DiscoveryFollower:
    """A follower that has asked every source once: `current`, `work` and `notes` say what there is."""
    follower = DiscoveryFollower(config, lambda _: None, clock)
    await follower.once()
    return follower


def _discoveries(config: Config) -> list[tuple[str, Discovery | None]]:
    pools: list[tuple[str, Discovery | None]] = [(pool.name, pool.discovery) for pool in config.pools]
    return [*pools, (ROUTER, config.router.discovery)] if config.router is not None else pools


def _look_of(source: Source, session: aiohttp.ClientSession, clock: Clock) -> Look:
    match source:
        case FileSd():
            files = FileLists(source)
            return lambda: asyncio.to_thread(files.look)
        case HttpSd():
            return WebList(source, session).look
        case Dns():
            return DnsLists(source).look
        case Kubernetes():
            pods = PodLists(source, session)
            return lambda: pods.look(clock.wall())
