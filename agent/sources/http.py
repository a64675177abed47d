"""Pages over HTTP, for as long as the process lives. In: the configured targets. Out: page and failure observations.

Every target has a clock of its own: its first scrape lies somewhere in the first interval, by its name, so that a
fleet is not asked all at once. A scrape that still runs when the next one is due takes that one's place: none is
queued, none overlaps another of the same target, and none delays another target.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import aiohttp

from agent.config import Access, Config, Pool, Router, Scrape, Target
from agent.model import FailureObservation, Observation, PageObservation
from agent.sources.clock import Clock, ClockWatch, SystemClock
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import REQUEST_HEADERS, FetchError, fetch_page
from agent.sources.http_names import NameResolver

Emit = Callable[[Observation], None]

READ_BUFFER_BYTES = 1 << 20
"""Holds a usual page whole, so that its transfer is not paused and resumed."""


@dataclass(slots=True)
class TargetWork:
    """What was done for one target: pages taken, failures, and scrapes left out because the one before still ran."""

    pages: int = 0
    failures: int = 0
    skipped: int = 0


class PageSource:
    """Scrapes every target of a configuration, each on its own clock, through one session.

    `emit` is called in the event loop with every observation; what it raises ends `run`. `work` counts per target.
    """

    def __init__(self, config: Config, emit: Emit, clock: Clock | None = None) -> None:
        self.work: dict[str, TargetWork] = {}
        self._config = config
        self._emit = emit
        self._clock = clock or SystemClock()
        self._watch = ClockWatch(self._clock)
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Scrape until `stop` is called; then every connection is closed. Raises only what `emit` raises."""
        async with open_session(self._config.scrape) as session, asyncio.TaskGroup() as tasks:
            keepers = {access: AccessKeeper(access) for access in {access for _, access in targets_of(self._config)}}
            running = [
                tasks.create_task(self._scrape(session, target, keepers[access]), name=f"scrape {target.name}")
                for target, access in targets_of(self._config)
            ]
            await self._stopped.wait()
            for task in running:
                task.cancel()

    def stop(self) -> None:
        """Let `run` end at once; a scrape that is on its way is given up without a word."""
        self._stopped.set()

    async def _scrape(self, session: aiohttp.ClientSession, target: Target, keeper: AccessKeeper) -> None:
        interval = self._config.scrape.interval_seconds
        work = self.work.setdefault(target.name, TargetWork())
        due = self._clock.steady() + offset_ratio(target.name) * interval
        while True:
            await self._clock.sleep_until(due)
            await self._scrape_once(session, target, keeper, work)
            passed = max(1, math.ceil((self._clock.steady() - due) / interval))
            work.skipped += passed - 1
            due += passed * interval

    async def _scrape_once(
        self, session: aiohttp.ClientSession, target: Target, keeper: AccessKeeper, work: TargetWork
    ) -> None:
        step = self._watch.look()
        if step is not None:
            self._emit(step)
        scrape = self._config.scrape
        sent, began = self._clock.wall(), self._clock.steady()
        try:
            page = await fetch_page(session, target.url, keeper, scrape.timeout_seconds, scrape.max_page_bytes)
        except FetchError as error:
            work.failures += 1
            self._emit(FailureObservation(sent, target.name, error.word, error.text))
            return
        work.pages += 1
        took = self._clock.steady() - began
        self._emit(PageObservation(sent, target.name, page.text, took, page.content_type))


def open_session(scrape: Scrape) -> aiohttp.ClientSession:
    """The one session of a process: kept connections, no cookies, names resolved anew for each new connection.

    aiohttp's own limits and deadlines are off: `fetch_page` has one for the whole of a scrape.
    """
    connector = aiohttp.TCPConnector(
        limit=0,
        limit_per_host=0,
        resolver=NameResolver(),
        use_dns_cache=False,
        keepalive_timeout=2 * scrape.interval_seconds + 5,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=REQUEST_HEADERS,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
        read_bufsize=READ_BUFFER_BYTES,
    )


def targets_of(config: Config) -> Iterator[tuple[Target, Access]]:
    """Every target that has an address, with how it is entered: those of the pools, then the router's."""
    groups: list[Pool | Router] = [*config.pools]
    if config.router is not None:
        groups.append(config.router)
    for group in groups:
        for target in group.targets:
            if target.url:
                yield target, group.access


def offset_ratio(name: str) -> float:
    """Where in the interval a target is scraped, 0..1: the same for a name on every machine and in every run."""
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32
