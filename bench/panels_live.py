"""`pdwatch demo` and a Prometheus that scrapes it, as anybody would set them up. In: seconds. Out: the Prometheus.

Everything is what a user has: the command itself, `pdwatch export alerts` for the scrape configuration, and both
families of rules, loaded and evaluated. At the speed of real time, for a Prometheus has no faster clock: in a demo ten
times as fast it would find ten times the rates.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from agent.config import Config, Pool, Target
from agent.demo.world import target_names
from agent.export.dashboards.write import default_config
from agent.export.rules.files import alert_files
from tests.export.dashboards.played import Server

HOST = "127.0.0.1"
INCIDENTS = ("mtp-collapse", "leak", "rollout")
"""So that there is a cause of a broken promise, a process that grows, and scrapes that fail."""
START_SECONDS = 120.0
LOOKBACK_SECONDS = 300.0
"""As any Prometheus has it: live, it knows where a series ends."""
SETTLE_SECONDS = 15.0
"""Scrapes before the first incident."""


@contextmanager
def live_demo(folder: Path, seconds: float) -> Iterator[tuple[Server, float, float]]:
    """(Prometheus, since when it scrapes, now), once it has done so for `seconds`; all of it ends with the context."""
    own, fleet = _free_port(), _free_ports_in_a_row(len(target_names()) + 1)
    config = _watched(own, fleet)
    rules = alert_files(config)
    for name in ("vllm-rules.yml", "pdwatch-rules.yml"):
        (folder / name).write_text(rules[name], encoding="utf-8")
    scraping = rules["prometheus-example.yml"].replace(
        "  - vllm-rules.yml", "  - vllm-rules.yml\n  - pdwatch-rules.yml"
    )
    scraping = scraping[: scraping.index("alerting:")] + scraping[scraping.index("scrape_configs:") :]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "demo.log").open("w"))
        stack.enter_context(_demo(own, fleet, log))
        server = stack.enter_context(Server(folder, LOOKBACK_SECONDS).running(scraping))
        start = time.time()
        time.sleep(SETTLE_SECONDS)
        for name in INCIDENTS:
            _press(fleet, name)
        time.sleep(max(0.0, seconds - SETTLE_SECONDS))
        yield server, start, time.time()


@contextmanager
def _demo(own: int, fleet: int, log: IO[str]) -> Iterator[None]:
    """The command, until the context ends. RuntimeError where it does not come up."""
    command = [str(Path(sys.executable).with_name("pdwatch")), "demo", "--listen", f"{HOST}:{own}"]
    command += ["--fleet-listen", f"{HOST}:{fleet}"]
    with subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_for(f"http://{HOST}:{own}/-/ready", process)
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def _watched(own: int, fleet: int) -> Config:
    """The demo as a configuration that rules and scraping are exported from."""
    pools: Mapping[str, list[Target]] = {"prefill": [], "decode": []}
    for number, name in enumerate(target_names(), start=1):
        pools[name.partition("-")[0]].append(Target(name, f"http://{HOST}:{fleet + number}/metrics"))
    found = default_config()
    return replace(
        found,
        deployment="demo",
        listen=f"{HOST}:{own}",
        pools=(
            Pool(name="prefill", role="prefill", targets=tuple(pools["prefill"]), gpus_per_target=4),
            Pool(name="decode", role="decode", targets=tuple(pools["decode"]), gpus_per_target=8),
        ),
    )


def _press(fleet: int, incident: str) -> None:
    """The button on the fleet's page."""
    address = f"http://{HOST}:{fleet}"
    form = urlencode({"action": "start", "incident": incident}).encode()
    with urlopen(Request(f"{address}/incidents", data=form, headers={"Origin": address})):
        return


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urlopen(address):
                return
        except URLError:
            time.sleep(0.2)
    raise RuntimeError(f"pdwatch demo did not come up at {address}; its output is in demo.log")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _free_ports_in_a_row(count: int) -> int:
    """The first of `count` ports that are free now."""
    for _ in range(50):
        first = _free_port()
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind((HOST, port))
        except (OSError, OverflowError):
            continue
        return first
    raise RuntimeError(f"no {count} free ports in a row on {HOST}")
