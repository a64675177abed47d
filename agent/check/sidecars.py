"""Whether the pdwatch beside each server answers. In: a configuration. Out: findings about targets without one."""

from __future__ import annotations

import asyncio
import json

from agent.check.findings import Finding
from agent.config import Access, Config, Target
from agent.sources.http import open_session
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import FetchError, fetch_page
from agent.sources.sidecar_document import SidecarUnusable, read_readings
from agent.sources.sidecars import MOST_BYTES, PATH, sidecars_of


def sidecar_findings(config: Config) -> list[Finding]:
    """Asks every sidecar once."""
    return asyncio.run(ask_sidecars(config)) if sidecars_of(config) else []


async def ask_sidecars(config: Config) -> list[Finding]:
    """As `sidecar_findings`, inside a running loop."""
    async with open_session(config.scrape, {"Accept": "application/json"}) as session:

        async def ask(url: str, targets: tuple[Target, ...]) -> list[Finding]:
            try:
                page = await fetch_page(
                    session, url + PATH, AccessKeeper(Access()), config.scrape.timeout_seconds, MOST_BYTES
                )
                readings = read_readings(json.loads(page.text))
            except FetchError as error:
                return [_finding(target, url, f"{error.word}: {error.text}") for target in targets]
            except (ValueError, RecursionError, SidecarUnusable) as error:
                said = str(error) if isinstance(error, SidecarUnusable) else "its answer is not JSON"
                return [_finding(target, url, said) for target in targets]
            found = []
            for target in targets:
                try:
                    readings.of(target)
                except SidecarUnusable as error:
                    found.append(_finding(target, url, str(error)))
            return found

        answers = await asyncio.gather(*(ask(url, targets) for url, targets in sidecars_of(config).items()))
    return [finding for answer in answers for finding in answer]


def _finding(target: Target, url: str, why: str) -> Finding:
    text = f"the pdwatch at {url} gives no reading of this target's processes: {why}"
    help_ = (
        "start pdwatch with mode: sidecar there and let it listen where this one reaches it; else memory is not seen"
    )
    return Finding("sidecar_silent", "warning", (target.name,), text, help_)
