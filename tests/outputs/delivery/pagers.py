"""Receivers on loopback that answer as a test says, and alerts to send to them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from agent.verdicts.alert import Alert

T = 1_700_000_000.0
REFUSING = "http://127.0.0.1:{port}"


@dataclass
class Pager:
    """One receiver. `statuses`: the answers to come (then 202); 0 hangs. `bodies` are of accepted posts."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    retry_after: str | None = None
    posts: list[Any] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        self.posts.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.path_qs)
        status = self.statuses.pop(0) if self.statuses else 202
        if status == 0:
            await asyncio.Event().wait()
        if 200 <= status < 300:
            self.bodies.append(body)
        headers = {"Retry-After": self.retry_after} if self.retry_after and status >= 400 else {}
        return web.Response(status=status, text="" if status < 300 else "go away", headers=headers)


@asynccontextmanager
async def pager(*statuses: int, retry_after: str | None = None) -> AsyncIterator[Pager]:
    """Answers on any path until the test leaves."""
    found = Pager(statuses=list(statuses), retry_after=retry_after)
    app = web.Application()
    app.router.add_post("/{path:.*}", found.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def alert(
    objective: str = "tpot", *, ended: float | None = None, began: float = T, severity: str = "critical"
) -> Alert:
    """A breached objective of the deployment `glm`."""
    labels = {
        "alertname": "PDWatchObjectiveBreached",
        "severity": severity,
        "deployment": "glm",
        "scope": "decode",
        "objective": objective,
    }
    texts = {
        "summary": "A promise is broken: mean TPOT of decode.",
        "description": "mean TPOT of decode is 30 ms <promised 20 ms>.",
        "cause": "steps took longer",
        "runbook_url": "https://docs.example/runbooks.md#x",
    }
    return Alert(labels, began, texts, ended)
