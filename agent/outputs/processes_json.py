"""The latest readings of the processes on this host. In: observations as they are read. Out: `GET /api/v1/processes`.

A pdwatch in central mode asks for them where it cannot read /proc itself (`agent.sources.sidecars`). What came from
another pdwatch is never given on, so that two that ask each other do not pass one reading around.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from agent.config import Config
from agent.model import Observation, ProcessesObservation
from agent.sources.recordings.lines import encode

PATH = "/api/v1/processes"


class ProcessReadings:
    """The newest reading of each target. `wall` gives unix seconds."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._instance = secrets.token_hex(8)
        self._latest: dict[str, ProcessesObservation] = {}

    def note(self, observation: Observation) -> None:
        """Takes a reading of this host's own."""
        if isinstance(observation, ProcessesObservation):
            self._latest[observation.target] = observation

    def document(self, config: Config) -> dict[str, Any]:
        """The answer: readings of the targets that are configured now, each with the port of its page."""
        lines = []
        for pool in config.pools:
            for target in pool.targets:
                observation = self._latest.get(target.name)
                if observation is not None:
                    lines.append({**encode(observation), "port": _port(target.url)})
        return {"type": "processes", "at": self._wall(), "instance": self._instance, "observations": lines}


def add_processes_route(app: web.Application, readings: ProcessReadings, config: Callable[[], Config]) -> None:
    """Adds the address to the application."""

    async def processes(_: web.Request) -> web.Response:
        return web.json_response(readings.document(config()))

    app.router.add_get(PATH, processes)


def _port(url: str) -> int | None:
    parts = urlsplit(url)
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
