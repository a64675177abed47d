"""A browser and servers for it. In: Debian's Chromium. Out: running pdwatches, and pages that note trouble.

The servers run in a thread of their own, so that a test can drive the browser step by step.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.outputs.live import Live
from tests.browser.fleets import Clock, Happening, played
from tests.browser.serving import Served, served
from tests.demo.watched import middle
from tests.outputs import fleet

playwright = pytest.importorskip("playwright.sync_api", reason="pip install '.[browser]' brings playwright")

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def broken() -> Iterator[Served]:
    """A fleet whose drafts are no longer accepted and one of whose workers leaks."""
    happenings = [Happening("leak", 7.0, {"bytes_per_hour": 6e9}), Happening("mtp-collapse", 0.2, {})]
    live = played(middle(), happenings, busy_hours=0.4, quiet_hours=8.0, interval_seconds=30.0)
    with served(live) as found:
        yield found


@pytest.fixture(scope="session")
def silent() -> Iterator[Served]:
    """A pdwatch whose targets have not been heard of yet."""
    with served(fleet.live(rounds=0)) as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a file. Not for the session: its event loop would run on beside other tests."""
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page, and what went wrong in it. `failed`: requests that went outside or got no good answer."""

    page: Any
    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture
def opened(chromium: Any) -> Iterator[Open]:
    """Opens an address in a context of its own."""
    contexts = []

    def open_page(address: str, *, fake_clock: bool = False, **options: Any) -> Opened:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(60_000)
        found = Opened(context.new_page())
        page = found.page
        page.on("console", lambda said: found.console.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: found.console.append(f"error: {error}"))
        page.on("requestfailed", lambda request: found.failed.append(f"{request.url}: {request.failure}"))
        page.on("response", lambda answer: found.failed.append(answer.url) if answer.status >= 400 else None)
        page.on("request", lambda asked: None if asked.url.startswith(address) else found.failed.append(asked.url))
        if fake_clock:
            page.clock.install()
        page.goto(address)
        return found

    yield open_page
    for context in contexts:
        context.close()


def clock_of(live: Live) -> Clock:
    """The clock of a played fleet."""
    clock = live._wall
    assert isinstance(clock, Clock)
    return clock
