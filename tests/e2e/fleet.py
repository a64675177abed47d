"""A simulated deployment on loopback, in real time. In: a seed. Out: its servers' pages over HTTP, incidents by name.

Two engines on each side with short answers, so that a minute's mean follows within seconds what happens. It has run
for twenty minutes before anybody asks, as a fleet that was not just deployed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

from agent.demo.fleet import Fleet
from agent.demo.pages import CONTENT_TYPE
from agent.demo.switchboard import Switchboard
from agent.demo.topology import PrefillSpeed, Topology, Traffic, small
from tests.e2e.loopback import LoopbackServer

PAST_SECONDS = 1200.0
"""Servers younger than a quarter of an hour would be in the grace of their first minutes."""


def topology(seed: int) -> Topology:
    """Three requests a second at every hour, mean TPOT near 17 ms and TTFT well below a second."""
    traffic = Traffic(
        peak_requests_per_second=3.0,
        night_share=1.0,
        completion_tokens_median=150.0,
        completion_tokens_sigma=0.4,
        max_tokens=1024,
    )
    return replace(small(seed), traffic=traffic, prefill_speed=PrefillSpeed(tokens_per_second=300_000.0))


class ServedFleet:
    """One deployment. `ports`: each server's, by name."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._fleet = Fleet(topology(seed), time.time() - PAST_SECONDS, remember_seconds=600.0)
        self._fleet.advance(time.time())
        self._incidents = Switchboard(self._fleet, {})
        self.ports: dict[str, int] = {}

    @property
    def targets(self) -> tuple[str, ...]:
        return self._fleet.targets

    def begin(self, incident: str) -> float:
        """It goes wrong from now on; returns when (unix seconds)."""
        with self._lock:
            self._fleet.advance(time.time())
            self._incidents.start(incident)
            return self._fleet.now

    def end(self, incident: str) -> float:
        """It is healthy again from now on; returns when."""
        with self._lock:
            self._fleet.advance(time.time())
            self._incidents.stop(incident)
            return self._fleet.now

    def page(self, target: str) -> str | None:
        """A server's page now."""
        with self._lock:
            self._fleet.advance(time.time())
            return self._fleet.page(target)


@contextmanager
def served(seed: int) -> Iterator[ServedFleet]:
    """A deployment whose servers answer on ports of their own until the block is left."""
    fleet = ServedFleet(seed)
    servers = {target: LoopbackServer(_handler(fleet, target)) for target in fleet.targets}
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in servers.values()]
    fleet.ports.update({target: server.server_address[1] for target, server in servers.items()})
    for thread in threads:
        thread.start()
    try:
        yield fleet
    finally:
        for server in servers.values():
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


def _handler(fleet: ServedFleet, target: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page = fleet.page(target)
            body = b"being restarted\n" if page is None else page.encode()
            self.send_response(503 if page is None else 200)
            self.send_header("Content-Type", "text/plain" if page is None else CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler
