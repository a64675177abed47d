"""Pages over HTTP, for as long as the process lives. In: the configured targets. Out: page and failure observations.

Every target has a clock of its own: its first scrape lies somewhere in the first interval, by its name, so that a
fleet is not asked all at once. A scrape that still runs when the next one is due takes that one's place: none is
queued, none overlaps another of the same target, and none delays another target.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import aiohttp

from agent.config import Access, Config, Pool, Router, Scrape, Target
from agent.config.exporters import exporter_pages
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


class _Entered(NamedTuple):
    """A target and how it is entered: what a scrape is bound to."""

    target: Target
    access: Access


class PageSource:
    """Scrapes every target of a configuration, each on its own clock, through one session.

    `emit` is called in the event loop with every observation; what it raises ends `run`. `work` counts per target.
    `retarget` takes another configuration at any time: targets that stay as they are keep their clocks.
    """

    def __init__(self, config: Config, emit: Emit, clock: Clock | None = None) -> None:
        self.work: dict[str, TargetWork] = {}
        self._config = config
        self._emit = emit
        self._clock = clock or SystemClock()
        self._watch = ClockWatch(self._clock)
        self._is_stopped = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Scrape until `stop` is called; then every connection is closed. Raises only what `emit` raises."""
        running: dict[_Entered, asyncio.Task[None]] = {}
        keepers: dict[Access, AccessKeeper] = {}
        async with open_session(self._config.scrape) as session, asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                wanted = [] if self._is_stopped else [_Entered(*pair) for pair in targets_of(self._config)]
                for entered in running.keys() - set(wanted):
                    running.pop(entered).cancel()
                for entered in wanted:
                    if entered not in running:
                        keeper = keepers.setdefault(entered.access, AccessKeeper(entered.access))
                        scrape = self._scrape(session, entered.target, keeper)
                        running[entered] = tasks.create_task(scrape, name=f"scrape {entered.target.name}")
                if self._is_stopped:
                    return
                await self._changed.wait()

    def stop(self) -> None:
        """Let `run` end at once; a scrape that is on its way is given up without a word."""
        self._is_stopped = True
        self._changed.set()

    def retarget(self, config: Config) -> None:
        """Scrape the targets of another configuration from now on, at its interval; the others are let go."""
        self._config = config
        names = {target.name for target, _ in targets_of(config)}
        self.work = {name: work for name, work in self.work.items() if name in names}
        self._changed.set()

    async def _scrape(self, session: aiohttp.ClientSession, target: Target, keeper: AccessKeeper) -> None:
        work = self.work.setdefault(target.name, TargetWork())
        due = self._clock.steady() + offset_ratio(target.name) * self._config.scrape.interval_seconds
        while True:
            await self._clock.sleep_until(due)
            await self._scrape_once(session, target, keeper, work)
            interval = self._config.scrape.interval_seconds
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


def open_session(scrape: Scrape, headers: Mapping[str, str] | None = None) -> aiohttp.ClientSession:
    """A session with kept connections, no cookies, names resolved anew for each new connection.

    aiohttp's own limits and deadlines are off: `fetch_page` has one for the whole of a scrape. `headers` go before
    those of every scrape.
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
        headers={**REQUEST_HEADERS, **(headers or {})},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
        read_bufsize=READ_BUFFER_BYTES,
    )


def targets_of(config: Config) -> Iterator[tuple[Target, Access]]:
    """Every page that has an address, with how it is entered: of the pools, the router, and beside the targets."""
    groups: list[Pool | Router] = [*config.pools]
    if config.router is not None:
        groups.append(config.router)
    for group in groups:
        for target in group.targets:
            if target.url:
                yield target, group.access
    for page in exporter_pages(config):
        if page.url:
            yield Target(page.name, page.url), page.access


def offset_ratio(name: str) -> float:
    """Where in the interval a target is scraped, 0..1: the same for a name on every machine and in every run."""
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32
