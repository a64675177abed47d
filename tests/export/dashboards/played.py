"""A Prometheus that has seen the shipped recording. In: the recording. Out: a server that answers queries about it.

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

EVERY_SECONDS = 15.0
SOLVE_SECONDS = 120.0
"""Percentiles are solved anew this often: they cost most of the time here, and only that there are some matters."""
STEP_SECONDS = 15
LEAST_FAMILIES = ("vllm:", "http_requests_total", "process_start_time_seconds")
_CREATED = re.compile(r"_created(\{|\s)")


def config() -> Config:
    """The fleet of the recording, named and with GPUs; a minute of the memory watch counts as an hour.

    Its prompts are short and its servers slow: the promise speaks of such prompts, and one half of it can be kept.
    """
    found = config_from_names(["prefill-0", "prefill-1", "decode-0"])
    pools = tuple(replace(pool, gpus_per_target=1) for pool in found.pools)
    memory = replace(found.memory, time_scale=1 / 60)
    slower = {"tpot": 0.5}
    objectives = tuple(replace(one, target=slower.get(one.name, one.target)) for one in found.objectives)
    contract = Contract(prompt_tokens=(1, 262144))
    return replace(found, deployment="played", pools=pools, memory=memory, contract=contract, objectives=objectives)


def observations() -> list[Observation]:
    """The shipped recording."""
    return list(read_recording([SHIPPED_RECORDING]))


def own_pages(seen: list[Observation]) -> Iterator[str]:
    """Pdwatch's page every fifteen seconds, as OpenMetrics with times."""
    watch = Watch(config())
    watch.estimates.reuse_seconds = SOLVE_SECONDS
    due, padded = seen[0].t + EVERY_SECONDS, dict[str, float]()
    for count, observation in enumerate(seen):
        while observation.t > due:
            watch.evaluate(due)
            state = watch.state(due)
            totals = {name: history.total for name, history in watch.windows.pools.items()}
            for name, pool in state.pools.items():
                if pool.speculation is not None:
                    padded[name] = max(padded_drafts(totals[name], pool.role), padded.get(name, 0.0))
            own = OwnFigures("0", "3.11", seen[0].t, 0.01 * count, 50 << 20, 0.01, 0.02, count, 0, 0, {"scrape": 0})
            page = render(samples(Snapshot(state, totals, dict(padded), own)), "", "played")[0].decode()
            yield from stamped(page, due, {"instance": "pdwatch:9838", "job": "pdwatch"})
            # What the rule on pdwatch's status records while it fires.
            for verdict in state.verdicts:
                if verdict.status == "firing":
                    labels = f'objective="{verdict.objective}",scope="{verdict.scope}",severity="critical"'
                    alert = 'alertname="PDWatchObjectiveBreached",alertstate="firing",deployment="played"'
                    yield f"ALERTS{{{alert},{labels}}} 1 {due:.3f}"
            due += EVERY_SECONDS
        watch.observe(observation)


def server_pages(seen: list[Observation]) -> Iterator[str]:
    """The servers' pages with the labels that scraping gives them, and whether each scrape came."""
    role = {target.name: pool for pool in config().pools for target in pool.targets}
    for observation in seen:
        if not isinstance(observation, PageObservation | FailureObservation):
            continue
        pool = role[observation.target]
        labels = {
            "deployment": "played",
            "pool": pool.name,
            "role": pool.role,
            "target": observation.target,
            "instance": f"{observation.target}:8000",
            "job": f"vllm-{pool.name}",
        }
        came = isinstance(observation, PageObservation)
        yield from stamped(f"up {int(came)}\n", observation.t, labels)
        if isinstance(observation, PageObservation):
            kept = (line for line in observation.page.splitlines() if line.startswith(LEAST_FAMILIES))
            yield from stamped("\n".join(line for line in kept if not _CREATED.search(line)), observation.t, labels)


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
    """A Prometheus on loopback over one folder of blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = ""

    @contextmanager
    def running(self) -> Iterator["Server"]:
        """While it runs it answers; the folder may get further blocks between two runs."""
        empty = self._folder / "prometheus.yml"
        empty.write_text("global: {}\n")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{probe.getsockname()[1]}"
        arguments = [f"--config.file={empty}", f"--storage.tsdb.path={self._folder}/data"]
        arguments += [
            f"--web.listen-address={self._address}",
            "--storage.tsdb.retention.time=100y",
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


def recorded(server: Server, start: float, end: float) -> Iterator[str]:
    """What the rules on vLLM's metrics would have recorded. A rule that reads another has it written into it."""
    expressions: dict[str, str] = {}
    for rule in vllm_family(config()).recordings():
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
