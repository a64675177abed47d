"""Everything that a play needs, running. In: a folder. Out: two fleets, three pdwatch, two Prometheus, Alertmanagers.

Each way to the pager has an Alertmanager of its own, as one way pages at a time; all see the same incidents:

    direct    pdwatch -> Alertmanager           deployments one, two and, watching the fleet of one, killed
    vllm      servers -> Prometheus -> Alertmanager, rules on vLLM's metrics      deployments one, two
    pdwatch   pdwatch's /metrics -> Prometheus -> Alertmanager, rules on those    deployments one, two
    late      a second Alertmanager of the pdwatch of one, which is down when it matters
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import programs
from tests.e2e.files import alertmanager_file, pdwatch_file, prometheus_file
from tests.e2e.fleet import ServedFleet, served
from tests.e2e.programs import Program, asked, free_port, until, vector
from tests.e2e.receiver import Calls, answering

DIRECT, VLLM, PDWATCH, LATE = "direct", "vllm", "pdwatch", "late"
WAYS = (DIRECT, VLLM, PDWATCH)
HEALTHY_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Stage:
    """`fleets`: deployment -> its servers; `watches`: deployment -> its pdwatch; `managers`: way -> Alertmanager."""

    calls: Calls
    fleets: dict[str, ServedFleet]
    watches: dict[str, Program]
    managers: dict[str, Program]
    prometheis: dict[str, Program]

    def active(self, way: str) -> list[dict[str, object]]:
        """Alerts that an Alertmanager has now, inhibited ones included."""
        found: list[dict[str, object]] = asked(f"{self.managers[way].url}/api/v2/alerts") or []
        return found

    def wait_until_healthy(self) -> float:
        """Until every way has judged mean TPOT of one, and found it good."""

        def judged() -> bool:
            met = all(self._verdict(deployment) == "met" for deployment in ("one", "killed"))
            recorded = 'objective:vllm_tpot_seconds:mean1m{deployment="one"} < 0.030'
            exported = 'pdwatch_objective_status{deployment="one",objective="tpot",status="ok"} == 1'
            return met and bool(vector(self.prometheis[VLLM], recorded) and vector(self.prometheis[PDWATCH], exported))

        return until(judged, HEALTHY_SECONDS, "every way finds the fleet healthy")

    def _verdict(self, deployment: str) -> str | None:
        state = asked(f"{self.watches[deployment].url}/api/v1/state")
        verdicts = state["verdicts"] if isinstance(state, dict) else []
        return next((found["verdict"] for found in verdicts if found["objective"] == "tpot"), None)


@contextmanager
def set_up(folder: Path) -> Iterator[Stage]:
    """All programs, ready, but for the Alertmanager that is to be late; ended when the block is left."""
    with ExitStack() as stack:
        calls = stack.enter_context(answering())
        fleets = {name: stack.enter_context(served(seed)) for seed, name in enumerate(("one", "two"), start=1)}
        fleets["killed"] = fleets["one"]
        ports = {way: free_port() for way in (*WAYS, LATE)}
        urls = {way: {"url": f"http://127.0.0.1:{port}"} for way, port in ports.items()}
        alerting = {
            "one": {"alertmanagers": [urls[DIRECT], urls[LATE]]},
            "two": {"alertmanagers": [urls[DIRECT]]},
            "killed": {"alertmanagers": [urls[DIRECT]], "webhooks": [{"url": calls.url("webhook", "pager")}]},
        }
        files, watches = {}, {}
        for name, how in alerting.items():
            listen = free_port()
            files[name] = pdwatch_file(folder / f"{name}.yaml", name, fleets[name].ports, listen, how)
            watches[name] = programs.pdwatch(name, files[name], listen)
        managers = {
            way: programs.alertmanager(
                f"alertmanager-{way}",
                alertmanager_file(folder / f"alertmanager-{way}.yml", files["one"], calls, way),
                port,
            )
            for way, port in ports.items()
        }
        prometheis = {
            family: programs.prometheus(
                f"prometheus-{family}",
                prometheus_file(
                    folder / f"prometheus-{family}.yml", [files["one"], files["two"]], family, ports[family]
                ),
            )
            for family in (VLLM, PDWATCH)
        }
        stack.callback(managers[LATE].end)
        early = [*watches.values(), *prometheis.values(), *(managers[way] for way in WAYS)]
        for program in early:
            stack.enter_context(program)
        for program in early:
            program.wait()
        try:
            yield Stage(calls, fleets, watches, managers, prometheis)
        except AssertionError as error:
            for program in (*early, managers[LATE]):
                error.add_note(f"== {program.name}\n{program.tail()}")
            raise
