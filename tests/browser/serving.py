"""A pdwatch's server in a thread of its own. In: a `Live`. Out: an address to open, until the end of the block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.outputs.live import Live
from agent.outputs.web import start_server


@dataclass
class Served:
    """A pdwatch that a browser can open."""

    live: Live
    address: str


@contextmanager
def served(live: Live) -> Iterator[Served]:
    """A server on a free port until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start_server(live, "127.0.0.1:0"), loop).result(30)
    try:
        yield Served(live, live.listening)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
