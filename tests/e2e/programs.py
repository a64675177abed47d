"""Real programs on loopback. In: their configuration. Out: processes that answer, that can be ended and begun again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

POLL_SECONDS = 0.1
START_SECONDS = 60.0
END_SECONDS = 20.0
RUN_PDWATCH = "import sys; from agent.cli import main; sys.exit(main())"


def program(name: str) -> str:
    """Where a program is; the test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: it comes with Debian's packages prometheus and prometheus-alertmanager")
    return found


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(is_so: Callable[[], object], seconds: float, what: str) -> float:
    """Waits for what other processes do; returns when it was seen (unix seconds). AssertionError when it is late."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(POLL_SECONDS)
    return time.time()


def asked(url: str) -> Any:
    """A JSON answer, or None where nobody answers."""
    try:
        with urlopen(url, timeout=10) as answer:
            text = answer.read()
    except (URLError, OSError):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


class Program:
    """One process that answers at `url` once it is ready. Its output is in `NAME.log` of the folder."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, port: int) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self._command = list(command)
        self._log = folder / f"{name}.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self) -> None:
        """Starts it, and does not wait."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PDWATCH_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def wait(self) -> None:
        """Until it is ready."""
        until(self.is_ready, START_SECONDS, f"{self.name} answers\n{self.tail()}")

    def is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}\n{self.tail()}"
        return asked(f"{self.url}/-/ready") is not None

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it, if it runs, and waits for that."""
        if self._process is None:
            return
        self._process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def tail(self) -> str:
        """The end of its output."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:] if self._log.exists() else ""


def alertmanager(name: str, config: Path, port: int) -> Program:
    """An Alertmanager alone, without a cluster."""
    command = [
        program("prometheus-alertmanager"),
        f"--config.file={config}",
        f"--storage.path={config.parent / f'{name}.data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    return Program(name, command, config.parent, port)


def prometheus(name: str, config: Path) -> Program:
    """A Prometheus with an empty history."""
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={config.parent / f'{name}.data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    return Program(name, command, config.parent, port)


def pdwatch(name: str, config: Path, port: int) -> Program:
    """`pdwatch run` as a process of its own."""
    return Program(name, [sys.executable, "-c", RUN_PDWATCH, "run", "-c", str(config)], config.parent, port)


def vector(server: Program, expr: str) -> list[dict[str, Any]]:
    """What a Prometheus says now; empty where it does not answer."""
    said = asked(f"{server.url}/api/v1/query?{urlencode({'query': expr})}")
    found: list[dict[str, Any]] = said["data"]["result"] if isinstance(said, dict) else []
    return found
