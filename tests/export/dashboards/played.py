"""A Prometheus that has seen a fleet. In: observations, such as a recording. Out: a server that answers queries.

What pdwatch would have served at /metrics every fifteen seconds, the servers' own pages, and what the recording rules
would have recorded of them, written into a real Prometheus as blocks. Real time plays no part.
"""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from agent.config import Config, Contract, config_from_names
from agent.export.rules.families import vllm_family
from agent.indicators.speculation import padded_drafts
from agent.model import FailureObservation, Observation, PageObservation
from agent.outputs.metrics import render
from agent.outputs.own import OwnFigures
from agent.outputs.samples import Snapshot, samples
from agent.sources.recordings import SHIPPED_RECORDING, read_recording
from agent.watch import Watch
from tests.export.dashboards.made import queries

EVERY_SECONDS = 15.0
SOLVE_SECONDS = 120.0
"""Percentiles are solved anew this often: they cost most of the time here, and only that there are some matters."""
STEP_SECONDS = 15
VLLM_NAME = re.compile(r"vllm:\w+")
BESIDE_VLLM = ("http_requests_total", "process_start_time_seconds")


def config() -> Config:
    """The fleet of the recordings, named and with GPUs; a minute of the memory watch counts as an hour.

    Its prompts are short and its servers slow: the promise speaks of such prompts, and one half of it can be kept.
    """
    found = config_from_names(["prefill-0", "prefill-1", "decode-0"])
    pools = tuple(replace(pool, gpus_per_target=1) for pool in found.pools)
    memory = replace(found.memory, time_scale=1 / 60)
    slower = {"tpot": 0.5}
    objectives = tuple(replace(one, target=slower.get(one.name, one.target)) for one in found.objectives)
    contract = Contract(prompt_tokens=(1, 262144))
    return replace(found, deployment="played", pools=pools, memory=memory, contract=contract, objectives=objectives)


def observations(path: Path = SHIPPED_RECORDING) -> list[Observation]:
    """A recording of the real fleet."""
    return list(read_recording([path]))


def play(
    config: Config, seen: Iterable[Observation], every_seconds: float = EVERY_SECONDS, server_seconds: float = 0.0
) -> Iterator[str]:
    """All that a Prometheus scrapes of pdwatch, and of the servers (those at most once in `server_seconds`)."""
    watch = Watch(config)
    watch.estimates.reuse_seconds = SOLVE_SECONDS
    scraped = Scraped(config, server_seconds)
    began = due = 0.0
    padded = dict[str, float]()
    for count, observation in enumerate(seen):
        if not count:
            began, due = observation.t, observation.t + every_seconds
        while observation.t > due:
            watch.evaluate(due)
            state = watch.state(due)
            totals = {name: history.total for name, history in watch.windows.pools.items()}
            for name, pool in state.pools.items():
                if pool.speculation is not None:
                    padded[name] = max(padded_drafts(totals[name], pool.role), padded.get(name, 0.0))
            # Stand-ins: what pdwatch would have cost then is nobody's to know.
            own = OwnFigures("0", "3.11", began, 0.01 * count, 50 << 20, 0.01, 0.02, count, 0, 0)
            page = render(samples(Snapshot(state, totals, dict(padded), own)), "", config.deployment)[0].decode()
            yield from stamped(page, due, {"instance": "pdwatch:9838", "job": "pdwatch"})
            # What the rule on pdwatch's status records while it fires.
            for verdict in state.verdicts:
                if verdict.status == "firing":
                    labels = f'objective="{verdict.objective}",scope="{verdict.scope}",severity="critical"'
                    alert = f'alertname="PDWatchObjectiveBreached",alertstate="firing",deployment="{config.deployment}"'
                    yield f"ALERTS{{{alert},{labels}}} 1 {due:.3f}"
            due += every_seconds
        watch.observe(observation)
        yield from scraped.lines(observation)


class Scraped:
    """The servers' pages with the labels that scraping gives them, and whether each scrape came."""

    def __init__(self, config: Config, every_seconds: float = 0.0) -> None:
        self._deployment = config.deployment
        self._pool = {target.name: pool for pool in config.pools for target in pool.targets}
        self._names = {*BESIDE_VLLM, *vllm_names(config)}
        self._every_seconds = every_seconds
        self._last: dict[str, float] = {}

    def lines(self, observation: Observation) -> Iterator[str]:
        """One scrape, as far as boards and rules ask for it; nothing where it was no scrape, or it is not yet time."""
        if not isinstance(observation, PageObservation | FailureObservation):
            return
        target, t = observation.target, observation.t
        if t < self._last.get(target, -inf) + self._every_seconds:
            return
        self._last[target] = t
        pool = self._pool[target]
        labels = {
            "deployment": str(self._deployment),
            "pool": pool.name,
            "role": pool.role,
            "target": target,
            "instance": f"{target}:8000",
            "job": f"vllm-{pool.name}",
        }
        came = isinstance(observation, PageObservation)
        yield from stamped(f"up {int(came)}\n", t, labels)
        if isinstance(observation, PageObservation):
            kept = (line for line in observation.page.splitlines() if self._asked_for(line))
            yield from stamped("\n".join(kept), t, labels)

    def _asked_for(self, line: str) -> bool:
        return line.partition(" ")[0].partition("{")[0] in self._names


@cache
def vllm_names(config: Config) -> frozenset[str]:
    """Names of vLLM that a query of a board or a rule asks for."""
    asked = [query.expr for query in queries()] + [rule.expr for rule in vllm_family(config).recordings()]
    return frozenset(name for expr in asked for name in VLLM_NAME.findall(expr))


def stamped(page: str, t: float, labels: dict[str, str]) -> Iterator[str]:
    """The page's samples, each with more labels and a time."""
    more = ",".join(f'{name}="{value}"' for name, value in labels.items())
    for line in page.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, brace, rest = series.partition("{")
            yield f"{name}{{{more}{',' + rest if brace else '}'} {value} {t:.3f}"


def grown(page: str, start: float, steps: int, step_seconds: float) -> Iterator[str]:
    """One page again and again, its counters growing by what they are each time."""
    cumulative = re.compile(r"^\w+(_total|_bucket|_count|_sum)\b")
    for number in range(1, steps + 1):
        for line in stamped(page, start + number * step_seconds, {"instance": "pdwatch:9838", "job": "pdwatch"}):
            series, value, t = line.rsplit(" ", 2)
            yield f"{series} {float(value) * number if cumulative.match(series) else value} {t}"


class Server:
    """A Prometheus on loopback over one folder of blocks.

    `lookback_seconds`: a little more than between two samples of a play. Blocks written from text do not say where a
    series ended, so with the usual five minutes a verdict would seem to stand for five minutes too long.
    """

    def __init__(self, folder: Path, lookback_seconds: float = 1.5 * EVERY_SECONDS) -> None:
        self._folder = folder
        self._address = ""
        self._lookback_seconds = lookback_seconds

    @contextmanager
    def running(self, configuration: str = "global: {}\n") -> Iterator["Server"]:
        """While it runs it answers; the folder may get further blocks between two runs."""
        file = self._folder / "prometheus.yml"
        file.write_text(configuration, encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{probe.getsockname()[1]}"
        arguments = [f"--config.file={file}", f"--storage.tsdb.path={self._folder}/data"]
        arguments += [
            f"--web.listen-address={self._address}",
            "--storage.tsdb.retention.time=100y",
            f"--query.lookback-delta={self._lookback_seconds * 1000:.0f}ms",
            "--log.level=error",
        ]
        with subprocess.Popen(["prometheus", *arguments], stderr=subprocess.PIPE) as process:
            try:
                self._wait(process)
                yield self
            finally:
                process.terminate()
                process.wait(timeout=60)

    def add(self, lines: Iterable[str]) -> None:
        """Writes samples as blocks."""
        text = self._folder / "samples.om"
        with text.open("w") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.write("# EOF\n")
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text)]
        done = subprocess.run([*command, f"{self._folder}/data"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout

    def matrix(self, expr: str, start: float, end: float, step: float = STEP_SECONDS) -> list[dict[str, Any]]:
        """Series with their values over a stretch of time. AssertionError with Prometheus' own words."""
        query = urlencode({"query": expr, "start": start, "end": end, "step": step})
        try:
            with urlopen(f"http://{self._address}/api/v1/query_range?{query}") as answer:
                found = json.load(answer)
        except URLError as error:
            said = error.read().decode() if hasattr(error, "read") else str(error)
            raise AssertionError(f"{said}\n{expr}") from None
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            assert process.poll() is None, "prometheus ended: " + (
                process.stderr.read().decode() if process.stderr else ""
            )
            try:
                with urlopen(f"http://{self._address}/-/ready"):
                    return
            except URLError:
                time.sleep(0.05)  # its start is the one thing here that takes time of its own
        raise AssertionError("prometheus did not start")


def recorded(server: Server, config: Config, start: float, end: float) -> Iterator[str]:
    """What the rules on vLLM's metrics would have recorded. A rule that reads another has it written into it."""
    expressions: dict[str, str] = {}
    for rule in vllm_family(config).recordings():
        expr = rule.expr
        for read, instead in expressions.items():
            expr = expr.replace(read, f"({instead})")
        own = {name: value for name, value in rule.labels.items() if name in ("deployment", "pool")}
        selector = ",".join(f'{name}="{value}"' for name, value in own.items())
        expressions[f"{rule.record}{{{selector}}}"] = expr
        for series in server.matrix(expr, start, end):
            labels = {**series["metric"], **rule.labels}
            labels.pop("__name__", None)
            text = ",".join(f'{name}="{value}"' for name, value in labels.items())
            for t, value in series["values"]:
                yield f"{rule.record}{{{text}}} {value} {t:.3f}"
