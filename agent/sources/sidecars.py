"""Memory readings from the pdwatch beside each server. In: addresses, answers. Out: process observations by target.

A sidecar reads /proc where its servers run and gives its latest readings at `/api/v1/processes`. Here they become what
a local reading would be: under this configuration's name of the target, at the sidecar's own time on this clock.
A sidecar that is silent for three rounds makes its targets' memory unreadable, said once; it never makes it 0.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import aiohttp

from agent.config import Access, Config, Target
from agent.model import Observation, ProcessesObservation, SourceProblem
from agent.sources.clock import STEP_SECONDS, Clock, SystemClock
from agent.sources.http import offset_ratio, open_session
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import FetchError, fetch_page
from agent.sources.local_processes import round_seconds_of
from agent.sources.sidecar_document import Readings, SidecarUnusable, read_readings

PATH = "/api/v1/processes"
MOST_BYTES = 4 << 20
SILENT_ROUNDS = 3


@dataclass(slots=True)
class _Heard:
    """Of one target: the sidecar's time of the last reading taken, when that was (steady), and what has been said."""

    t: float | None = None
    at: float = 0.0
    is_told: bool = False


class SidecarSource:
    """Asks every sidecar of a configuration; `emit` is called in the event loop. `failures`: rounds by sidecar."""

    def __init__(self, config: Config, emit: Callable[[Observation], None], clock: Clock | None = None) -> None:
        self.failures: dict[str, int] = {}
        self._emit = emit
        self._clock = clock or SystemClock()
        self._changed = asyncio.Event()
        self._heard: dict[str, _Heard] = {}
        self._offsets: dict[str, float] = {}
        self._claims: dict[tuple[str, str], str] = {}
        """(sidecar's instance, its name of a target) -> the target here that this reading is of."""
        self.retarget(config)

    def retarget(self, config: Config) -> None:
        """Asks the sidecars of another configuration from now on."""
        self._config = config
        self._wanted = sidecars_of(config)
        names = {target.name for targets in self._wanted.values() for target in targets}
        self._heard = {name: heard for name, heard in self._heard.items() if name in names}
        self._claims = {claim: name for claim, name in self._claims.items() if name in names}
        self.failures = {url: self.failures.get(url, 0) for url in self._wanted}
        self._offsets = {url: offset for url, offset in self._offsets.items() if url in self._wanted}
        self._changed.set()

    async def run(self) -> None:
        """Runs until it is cancelled; without a sidecar it only waits for one."""
        running: dict[tuple[str, tuple[Target, ...]], asyncio.Task[None]] = {}
        headers = {"Accept": "application/json"}
        async with open_session(self._config.scrape, headers) as session, asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                wanted = set(self._wanted.items())
                for key in running.keys() - wanted:
                    running.pop(key).cancel()
                for key in sorted(wanted - running.keys()):
                    running[key] = group.create_task(self._follow(session, *key), name=f"sidecar {key[0]}")
                await self._changed.wait()

    async def _follow(self, session: aiohttp.ClientSession, url: str, targets: tuple[Target, ...]) -> None:
        keeper = AccessKeeper(Access())
        interval = round_seconds_of(self._config)
        began = self._clock.steady()
        for target in targets:
            self._heard.setdefault(target.name, _Heard(at=began))
        due = began + offset_ratio(url) * interval
        while True:
            await self._clock.sleep_until(due)
            await self._round(session, url, targets, keeper)
            due = max(due + interval, self._clock.steady())

    async def _round(
        self, session: aiohttp.ClientSession, url: str, targets: tuple[Target, ...], keeper: AccessKeeper
    ) -> None:
        sent = self._clock.wall()
        try:
            page = await fetch_page(session, url + PATH, keeper, self._config.scrape.timeout_seconds, MOST_BYTES)
            readings = read_readings(json.loads(page.text))
        except FetchError as error:
            self._failed(url, targets, f"{error.word}: {error.text}")
        except (ValueError, RecursionError):
            self._failed(url, targets, "its answer is not JSON")
        except SidecarUnusable as error:
            self._failed(url, targets, str(error))
        else:
            offset = self._offset(url, readings.at, sent, self._clock.wall())
            for target in targets:
                try:
                    self._take(target, readings, offset)
                except SidecarUnusable as error:
                    self._failed(url, (target,), str(error))

    def _take(self, target: Target, readings: Readings, offset: float) -> None:
        """Emits what is new of one target. Raises SidecarUnusable where there is nothing that can be taken for it."""
        reading = readings.of(target)
        claim = (readings.instance, reading.target)
        owner = self._claims.setdefault(claim, target.name)
        if owner != target.name:
            raise SidecarUnusable(f"its reading of {reading.target} is taken for target {owner} already")
        heard = self._heard[target.name]
        age = readings.at - reading.t
        if age > SILENT_ROUNDS * round_seconds_of(self._config):
            raise SidecarUnusable(f"its last reading is {age:.0f} s old")
        if reading.t == heard.t:
            return
        heard.t, heard.at, heard.is_told = reading.t, self._clock.steady(), False
        processes = tuple(
            replace(process, started_seconds=process.started_seconds - offset)
            if process.started_seconds is not None
            else process
            for process in reading.processes
        )
        problems = tuple(replace(problem, target=target.name) for problem in reading.problems)
        # What lies in the future would make everything that comes after it look late.
        t = min(reading.t - offset, self._clock.wall())
        self._emit(ProcessesObservation(t, target.name, processes, reading.cgroup, problems))

    def _offset(self, url: str, at: float, sent: float, received: float) -> float:
        """How far the sidecar's clock is ahead. Set anew only when it was set: what jitters would move start times."""
        known = self._offsets.get(url, 0.0)
        estimate = at - (sent + received) / 2
        if abs(estimate - known) > STEP_SECONDS + (received - sent) / 2:
            known = self._offsets[url] = estimate
        return known

    def _failed(self, url: str, targets: tuple[Target, ...], why: str) -> None:
        self.failures[url] = self.failures.get(url, 0) + 1
        now = self._clock.steady()
        for target in targets:
            heard = self._heard[target.name]
            if heard.is_told or now - heard.at < SILENT_ROUNDS * round_seconds_of(self._config):
                continue
            heard.is_told, heard.t = True, None
            text = f"the pdwatch beside {target.name} ({url}) gives no reading of its memory: {why}"[:400]
            problem = SourceProblem("process_unreadable", target.name, text)
            self._emit(ProcessesObservation(self._clock.wall(), target.name, (), None, (problem,)))


def sidecars_of(config: Config) -> dict[str, tuple[Target, ...]]:
    """Base URL of each sidecar -> the targets that it reads. None in sidecar mode."""
    found: dict[str, list[Target]] = {}
    for url, target in _pairs(config) if config.mode == "central" else ():
        found.setdefault(url, []).append(target)
    return {url: tuple(targets) for url, targets in found.items()}


def _pairs(config: Config) -> Iterator[tuple[str, Target]]:
    for pool in config.pools:
        for target in pool.targets:
            url = pool.sidecar_of(target)
            if url and urlsplit(url).hostname:
                yield url, target
