"""Asks the targets. In: a configuration. Out: each target's answers: two pages some seconds apart, and its version.

Few targets at once, so that the time a page takes is the server's and not this process's.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from agent.check.seen import Answer
from agent.config import Config, Scrape, Target
from agent.model import FailureObservation, PageObservation
from agent.sources.clock import Clock, SystemClock
from agent.sources.http import open_session, targets_of
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import FetchError, fetch_page

AT_ONCE = 8
MOST_VERSION_BYTES = 1 << 16
MOST_VERSION_LENGTH = 64


def wait_between_pages(config: Config) -> float:
    """Seconds between the two pages where nobody says otherwise: one interval, from 2 to 10."""
    return min(10.0, max(2.0, config.scrape.interval_seconds))


def ask(config: Config, wait_seconds: float) -> list[Answer]:
    """Every target's answers (router targets included). Failures are answers; nothing of the world's is raised."""
    return asyncio.run(ask_targets(config, wait_seconds, SystemClock()))


async def ask_targets(config: Config, wait_seconds: float, clock: Clock) -> list[Answer]:
    """As `ask`, inside a running loop."""
    async with open_session(config.scrape) as session:

        async def text_of(url: str, keeper: AccessKeeper, scrape: Scrape) -> tuple[str, str]:
            page = await fetch_page(session, url, keeper, scrape.timeout_seconds, scrape.max_page_bytes)
            return page.text, page.content_type

        asked = [_Asked(target, AccessKeeper(access)) for target, access in targets_of(config)]
        gate = asyncio.Semaphore(AT_ONCE)
        begun = clock.steady()

        async def page_of(asked: _Asked) -> PageObservation | FailureObservation:
            async with gate:
                sent, began = clock.wall(), clock.steady()
                try:
                    text, kind = await text_of(asked.target.url, asked.keeper, config.scrape)
                except FetchError as error:
                    return FailureObservation(sent, asked.target.name, error.word, error.text)
                return PageObservation(sent, asked.target.name, text, clock.steady() - began, kind)

        async def version_of(asked: _Asked, first: PageObservation | FailureObservation) -> str | None:
            if isinstance(first, FailureObservation):
                return None
            async with gate:
                small = Scrape(config.scrape.interval_seconds, config.scrape.timeout_seconds, MOST_VERSION_BYTES)
                try:
                    text, _ = await text_of(version_url(asked.target.url), asked.keeper, small)
                except FetchError:
                    return None  # another path in front, or a proxy that lets metrics through and nothing else
                return version_in(text)

        first = await asyncio.gather(*map(page_of, asked))
        versions = await asyncio.gather(*map(version_of, asked, first))
        await clock.sleep_until(begun + wait_seconds)
        second = await asyncio.gather(*map(page_of, asked))
    return [
        Answer(one.target.name, (early, late), version)
        for one, early, late, version in zip(asked, first, second, versions, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Asked:
    target: Target
    keeper: AccessKeeper


def version_url(url: str) -> str:
    """Where the server of a metrics page tells its version."""
    parts = urlsplit(url)
    path = parts.path.removesuffix("/metrics") + "/version"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def version_in(text: str) -> str | None:
    """The version in the answer of vLLM's /version; None for anything else."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    version = said.get("version") if isinstance(said, dict) else None
    is_text = isinstance(version, str) and version.isprintable() and 0 < len(version) <= MOST_VERSION_LENGTH
    return version if is_text else None
