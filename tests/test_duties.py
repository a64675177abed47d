"""What is done again and again: here, that what fires is saved before it is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.duties import judge
from agent.errors import StateError
from agent.model import FailureObservation
from agent.store import Store
from tests.outputs import fleet
from tests.sources.loopback import TurnedClock


class ToldAtSave(Store):
    """Notes what was told already whenever something is saved."""

    def __init__(self, directory: Path, told: list[list[str]], live: Any) -> None:
        super().__init__(directory)
        self._told, self._live = told, live

    def save(self, documents: Any, obsolete: Any = None) -> None:
        self._told.append([alert.name for alert in self._live.alerts])
        super().save(documents, obsolete)


class NoDisk(ToldAtSave):
    def save(self, documents: Any, obsolete: Any = None) -> None:
        list(documents)
        raise StateError("no disk")


async def until_told(live: Any, store: Store) -> None:
    """Judges a deployment of which no target answers, until that is told."""
    clock = TurnedClock(wall=fleet.BEGIN)
    live._wall = clock.wall
    task = asyncio.create_task(judge(live, clock, store))
    async with asyncio.timeout(20):
        while not live.alerts:
            await clock.sleeping(1)
            clock.turn(live.config.scrape.interval_seconds)
            for target in live.watch.windows.targets:
                live.observe(FailureObservation(clock.wall(), target, "refused", "refused"))
    task.cancel()


async def test_what_newly_fires_is_on_disk_before_anybody_is_told(tmp_path: Path) -> None:
    live = fleet.live(rounds=0)
    saved_with_told: list[list[str]] = []
    store = ToldAtSave(tmp_path, saved_with_told, live)
    await until_told(live, store)
    assert saved_with_told[0] == []
    names = {alert["labels"]["alertname"] for alert in store.load()["incidents"]["alerts"]}
    assert {alert.name for alert in live.alerts} <= names


async def test_a_disk_that_fails_holds_no_page_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    live = fleet.live(rounds=0)
    await until_told(live, NoDisk(tmp_path, [], live))
    assert live.alerts
    assert live.defects.counts["store"] >= 1
    assert "no disk" in caplog.text
    assert json.dumps(sorted(live.defects.counts)) == '["store"]'
