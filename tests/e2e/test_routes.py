"""The exported example of Alertmanager: who is told of what, by amtool and by the real Alertmanager."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.e2e import programs
from tests.e2e.files import alertmanager_file, pdwatch_file
from tests.e2e.programs import Program, asked, free_port, program, until
from tests.e2e.receiver import Calls, answering

WAY = "routes"
TOLD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Routed:
    """An Alertmanager with the example's routes. `file`: its configuration."""

    manager: Program
    file: Path
    calls: Calls


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routed]:
    folder = tmp_path_factory.mktemp("routes")
    ports = {"prefill-0": 8000, "decode-0": 8001}
    with answering() as calls:
        config = pdwatch_file(folder / "one.yaml", "one", ports, 9838, {"path": "rules"})
        file = alertmanager_file(folder / "alertmanager.yml", config, calls, WAY)
        with programs.alertmanager("alertmanager", file, free_port()) as manager:
            manager.wait()
            yield Routed(manager, file, calls)


def amtool(*arguments: str | Path) -> str:
    """What amtool says; AssertionError with its words where it finds fault."""
    done = subprocess.run([program("amtool"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_amtool_finds_nothing_wrong(routed: Routed) -> None:
    assert "SUCCESS" in amtool("check-config", routed.file)


@pytest.mark.parametrize(
    ("severity", "receiver"), [("critical", "pager"), ("warning", "tickets"), ("info", "nobody"), ("odd", "nobody")]
)
def test_amtool_says_that_critical_pages_warning_is_a_ticket_and_info_goes_nowhere(
    routed: Routed, severity: str, receiver: str
) -> None:
    labels = (f"severity={severity}", "alertname=PDWatchRankSlow", "deployment=one")
    arguments = (f"--config.file={routed.file}", f"--verify.receivers={receiver}", *labels)
    assert receiver in amtool("config", "routes", "test", *arguments)


def test_amtool_says_that_alerts_of_others_are_left_alone(routed: Routed) -> None:
    arguments = (f"--config.file={routed.file}", "--verify.receivers=nobody", "severity=critical", "alertname=DiskFull")
    assert "nobody" in amtool("config", "routes", "test", *arguments)


def test_the_real_one_holds_back_what_follows_from_a_graver_problem(routed: Routed) -> None:
    def alert(name: str, code: str, severity: str, deployment: str) -> dict[str, dict[str, str]]:
        named = {"alertname": f"PDWatch{name}", "code": code, "severity": severity}
        return {"labels": {**named, "deployment": deployment, "scope": "decode"}}

    posted = [
        alert("EngineFrozen", "engine_frozen", "critical", "one"),
        alert("QueueBuildup", "queue_buildup", "warning", "one"),
        alert("MemoryGrowth", "memory_growth", "warning", "one"),
        alert("QueueBuildup", "queue_buildup", "warning", "other"),
        alert("Restarted", "restarted", "info", "other"),
    ]
    url = f"{routed.manager.url}/api/v2/alerts"
    request = Request(url, json.dumps(posted).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        assert answer.status == 200
    calls = routed.calls
    until(lambda: calls.of(WAY, "one"), TOLD_SECONDS, "a page")
    until(lambda: calls.of(WAY, "one", "tickets") and calls.of(WAY, "other", "tickets"), TOLD_SECONDS, "two tickets")

    def told(deployment: str, receiver: str) -> list[str]:
        return [a["labels"]["code"] for notice in calls.of(WAY, deployment, receiver) for a in notice.alerts]

    assert told("one", "pager") == ["engine_frozen"]
    assert told("one", "tickets") == ["memory_growth"]  # nothing to do with the engine
    assert told("other", "tickets") == ["queue_buildup"]
    assert told("other", "pager") == []
    active = {(found["labels"]["deployment"], found["labels"]["code"]): found for found in asked(url)}
    assert active["one", "queue_buildup"]["status"]["inhibitedBy"]
    assert not active["other", "queue_buildup"]["status"]["inhibitedBy"]
    assert active["other", "restarted"]["receivers"] == [{"name": "nobody"}]
