"""The demo's processes: pdwatch finds them like any server's, they really hold memory, and they end with the demo."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.demo import Fleet, small
from agent.demo.child import MOST_BYTES
from agent.demo.conditions import Leak
from agent.demo.process_trees import LEAKING_TARGET, LEAKING_TITLE, ProcessTrees
from agent.model import ProcessesObservation, ProcessSample
from agent.sources.processes import ProcessReader, TargetHint
from tests.demo.watched import START

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20
LONGEST_SECONDS = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Looks again and again; processes take their time, and only a broken one takes all of it."""
    end = time.monotonic() + LONGEST_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(small(), START)


@pytest.fixture
def ports() -> dict[str, int]:
    """Ports that no other test run on this host has in a command line."""
    with socket.socket() as first, socket.socket() as second:
        for taken in (first, second):
            taken.bind(("127.0.0.1", 0))
        return {"prefill-0": first.getsockname()[1], "decode-0": second.getsockname()[1]}


@pytest.fixture
def trees(fleet: Fleet, ports: dict[str, int]) -> Iterator[ProcessTrees]:
    running = ProcessTrees(ports)
    running.follow(fleet)
    yield running
    running.end()


@pytest.fixture
def reader(ports: dict[str, int]) -> ProcessReader:
    return ProcessReader(targets={name: TargetHint(port=port) for name, port in ports.items()})


def read(reader: ProcessReader) -> dict[str, ProcessesObservation]:
    return {observation.target: observation for observation in reader.read(time.time())}


def titled(reader: ProcessReader, target: str) -> dict[str, ProcessSample]:
    return {sample.title: sample for sample in read(reader)[target].processes}


def whole(reader: ProcessReader) -> bool:
    return all(len(observation.processes) == 4 for observation in read(reader).values())


def test_pdwatch_finds_each_servers_processes_by_their_titles_and_its_port(
    trees: ProcessTrees, reader: ProcessReader
) -> None:
    until(lambda: whole(reader))
    for target, observation in read(reader).items():
        assert observation.problems == ()
        root, *others = sorted(observation.processes, key=lambda sample: sample.parent_pid != os.getpid())
        assert (root.title, root.pid) == ("vllm serve", trees.pids[target])
        assert {(sample.title, sample.kind, sample.engine) for sample in others} == {
            ("VLLM::DPCoordinator", "coordinator", None),
            ("VLLM::EngineCore_DP0", "engine_core", "0"),
            ("VLLM::EngineCore_DP1", "engine_core", "1"),
        }
        assert {sample.parent_pid for sample in others} == {root.pid}
        assert all(sample.rss_bytes is not None and sample.rss_bytes < 32 * MIB for sample in observation.processes)


def test_the_leaking_process_really_grows_and_no_other_does(
    fleet: Fleet, trees: ProcessTrees, reader: ProcessReader
) -> None:
    until(lambda: whole(reader))
    before = titled(reader, LEAKING_TARGET)
    leak = Leak(LEAKING_TARGET, LEAKING_TITLE, 3600.0 * MIB, START)
    fleet.conditions.leaks.append(leak)
    fleet.advance(START + 24)
    trees.follow(fleet)

    def grown(title: str) -> int:
        then, now = before[title].anon_bytes, titled(reader, LEAKING_TARGET)[title].anon_bytes
        assert then is not None
        assert now is not None
        return now - then

    until(lambda: grown(LEAKING_TITLE) >= 23 * MIB)
    assert grown(LEAKING_TITLE) < 28 * MIB
    assert grown("VLLM::EngineCore_DP1") < 2 * MIB
    # one that begins anew begins small
    leak.until = fleet.now
    fleet.conditions.leaks.append(replace(leak, since=fleet.now, until=None))
    trees.follow(fleet)
    until(lambda: grown(LEAKING_TITLE) < 4 * MIB)


def test_a_leak_grows_up_to_the_cap(fleet: Fleet) -> None:
    fleet.conditions.leaks.append(Leak(LEAKING_TARGET, LEAKING_TITLE, 1e12, START))
    fleet.advance(START + 3600)
    assert ProcessTrees.leaked_bytes(fleet) == MOST_BYTES


def test_a_restart_of_the_server_is_one_of_its_processes(
    fleet: Fleet, trees: ProcessTrees, reader: ProcessReader
) -> None:
    until(lambda: whole(reader))
    first = dict(trees.pids)
    server = fleet.server("prefill-0")
    fleet.stop_server(fleet.now, server)
    trees.follow(fleet)
    assert set(trees.pids) == {"decode-0"}
    codes = {problem.code for problem in read(reader)["prefill-0"].problems}
    assert {"process_gone", "process_unreadable"} <= codes
    fleet.start_server(fleet.now, server)
    trees.follow(fleet)
    until(lambda: whole(reader))
    assert trees.pids["prefill-0"] != first["prefill-0"]
    assert trees.pids["decode-0"] == first["decode-0"]


def test_none_outlives_the_demo_even_when_that_is_killed(ports: dict[str, int]) -> None:
    program = f"""
import sys
from agent.demo import Fleet, small
from agent.demo.process_trees import ProcessTrees
trees = ProcessTrees({ports!r})
trees.follow(Fleet(small(), {START}))
print(*trees.pids.values(), flush=True)
sys.stdin.read()
"""
    demo = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    launchers = [int(pid) for pid in demo.stdout.readline().split()]
    assert len(launchers) == 2
    until(lambda: all(len(children(pid)) == 3 for pid in launchers))
    family = [*launchers, *(child for pid in launchers for child in children(pid))]
    demo.send_signal(signal.SIGKILL)
    demo.communicate()
    until(lambda: not any(alive(pid) for pid in family))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def alive(pid: int) -> bool:
    """Whether it runs; one that waits to be reaped by whoever adopted it does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_where_no_process_can_be_started_the_fleet_goes_on_without(
    fleet: Fleet, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    trees = ProcessTrees(ports)
    trees.follow(fleet)
    assert "no process can be started here (No such file or directory)" in trees.trouble
    trees.follow(fleet)
    assert trees.pids == {}


def test_processes_that_end_by_themselves_are_said_and_not_started_again(fleet: Fleet, trees: ProcessTrees) -> None:
    pid = trees.pids["decode-0"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    trees.follow(fleet)
    assert trees.trouble == "The memory watch has nothing to see: the processes of decode-0 have ended by themselves."
    assert trees.pids == {}
