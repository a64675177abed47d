"""Who is called: a webhook receiver on loopback. In: posts of Alertmanager and of pdwatch. Out: what came, in turn."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.e2e.loopback import LoopbackServer

Labels = frozenset[tuple[str, str]]
"""An alert's identity."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One post. `way`, `receiver`: the two parts of its path. `group`: the labels that its alerts are grouped by."""

    at: float
    way: str
    receiver: str
    status: str
    group: dict[str, str]
    alerts: tuple[dict[str, Any], ...]

    def labels(self, status: str = "firing") -> set[Labels]:
        """Identities of its alerts of one status."""
        return {frozenset(alert["labels"].items()) for alert in self.alerts if alert["status"] == status}

    def is_about(self, deployment: str) -> bool:
        return any(alert["labels"].get("deployment") == deployment for alert in self.alerts)


class Calls:
    """Everything that came in so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notices: list[Notice] = []
        self.port = 0

    def url(self, way: str, receiver: str) -> str:
        """Where a receiver of one way posts to."""
        return f"http://127.0.0.1:{self.port}/{way}/{receiver}"

    def take(self, path: str, body: dict[str, Any]) -> None:
        """Notes one post, in Alertmanager's webhook form."""
        _, way, receiver = path.split("/")
        notice = Notice(
            time.time(), way, receiver, body["status"], dict(body.get("groupLabels", {})), tuple(body["alerts"])
        )
        with self._lock:
            self._notices.append(notice)

    def of(self, way: str, deployment: str, receiver: str | None = "pager") -> list[Notice]:
        """What one receiver (None: every receiver) was told of one deployment."""
        with self._lock:
            return [
                notice
                for notice in self._notices
                if notice.way == way
                and (receiver is None or notice.receiver == receiver)
                and notice.is_about(deployment)
            ]

    def statuses(self, way: str, deployment: str, receiver: str = "pager") -> list[str]:
        """`firing`, `resolved` ... in the order of their coming."""
        return [notice.status for notice in self.of(way, deployment, receiver)]

    def identities(self, way: str, deployment: str) -> set[Labels]:
        """Of all alerts that anybody was told of, but the dead man's switch, which always fires."""
        found = {
            frozenset(alert["labels"].items())
            for notice in self.of(way, deployment, None)
            for alert in notice.alerts
            if alert["labels"].get("deployment") == deployment
        }
        return {labels for labels in found if ("code", "dead_man") not in labels}


@contextmanager
def answering() -> Iterator[Calls]:
    """Takes posts until the block is left."""
    calls = Calls()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            calls.take(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = LoopbackServer(Handler)
    calls.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
