"""The table of a host's processes: new, gone, reused, changed by exec; and how little is read in a quiet round."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sources import process_table
from agent.sources.process_table import LOOKS_PER_ROUND, ProcessTable
from agent.sources.procfs import read_stat
from agent.sources.servers import is_relevant
from tests.sources.fake_host import BOOTED, FakeHost

OLD = BOOTED + 1e6
"""A moment at which no fake process is young."""


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids whose stat is read, in order."""
    seen: list[int] = []

    def counting(proc_root: str, pid: int):
        seen.append(pid)
        return read_stat(proc_root, pid)

    monkeypatch.setattr(process_table, "read_stat", counting)
    return seen


def test_command_lines_are_kept_for_servers_alone(host: FakeHost) -> None:
    host.process(10, ["mysqld", "--password=secret"])
    host.process(11, ["vllm", "serve", "m"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert table.processes[10].command_line == ()
    assert table.processes[11].command_line == ("vllm", "serve", "m")
    assert table.processes[11].started_seconds == BOOTED + 1000.0


def test_a_quiet_round_reads_a_bounded_number_of_processes(host: FakeHost, reads: list[int]) -> None:
    for pid in range(1000, 1300):
        host.process(pid, ["sleep", "1"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert len(reads) >= 300
    reads.clear()
    table.update(OLD)
    assert len(reads) <= LOOKS_PER_ROUND


def test_a_shell_that_becomes_a_server_by_exec_is_found_within_one_turn(host: FakeHost) -> None:
    for pid in range(1000, 1300):
        host.process(pid, ["sleep", "1"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    (host.proc / "1200" / "cmdline").write_bytes(b"vllm\0serve\0m\0")
    rounds = 0
    while not table.processes[1200].relevant:
        table.update(OLD)
        rounds += 1
        assert rounds <= 300 // LOOKS_PER_ROUND + 2


def test_a_young_child_is_looked_at_each_round_until_it_has_its_title(host: FakeHost) -> None:
    for pid in range(1000, 1300):
        host.process(pid, ["sleep", "1"])
    host.process(1300, ["python", "-c", "from multiprocessing.spawn import spawn_main"], started=5000.0)
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(BOOTED + 5010.0)
    (host.proc / "1300" / "cmdline").write_bytes(b"VLLM::EngineCore_DP0\0\0\0")
    table.update(BOOTED + 5015.0)
    assert table.processes[1300].command_line == ("VLLM::EngineCore_DP0",)


def test_a_pid_that_was_reused_is_another_process(host: FakeHost) -> None:
    host.process(10, ["vllm", "serve", "m"], started=1000.0)
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    before = table.processes[10].identity
    host.process(10, ["cron"], started=2000.0)
    table.update(OLD)
    assert table.processes[10].identity != before
    assert not table.processes[10].relevant


def test_what_is_gone_is_forgotten(host: FakeHost) -> None:
    host.process(10, ["vllm", "serve", "m"])
    host.process(11, ["cron"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    host.remove(10)
    table.update(OLD)
    assert set(table.processes) == {11}


def test_a_process_that_ends_while_it_is_read_is_left_out(host: FakeHost) -> None:
    host.process(10, ["vllm", "serve", "m"])
    (host.proc / "10" / "stat").unlink()
    (host.proc / "11").mkdir()
    (host.proc / "11" / "stat").write_text("11 (cut")
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert table.processes == {}


def test_kernel_threads_are_known_without_reading_their_command_line(host: FakeHost) -> None:
    host.process(2, ["vllm", "serve", "m"], comm="kthreadd", flags=0x00208040)
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert not table.processes[2].relevant


def test_our_own_process_is_left_out(host: FakeHost) -> None:
    host.we_are(10)
    host.process(10, ["pdwatch", "run", "--pattern", "vllm serve"])
    host.process(11, ["cron"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert set(table.processes) == {11}


def test_a_listed_process_that_is_closed_to_us_is_known_as_unreadable(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.process(10, ["vllm", "serve", "m"])

    def refuse(_root: str, pid: int):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(process_table, "read_stat", refuse)
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert not table.processes[10].readable


def test_a_clock_that_is_set_does_not_make_new_processes(host: FakeHost) -> None:
    host.process(10, ["vllm", "serve", "m"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    before = table.processes[10].started_seconds
    (host.proc / "stat").write_text(f"btime {BOOTED + 3600}\n")
    host.process(10, ["vllm", "serve", "m"])
    table.update(OLD)
    assert table.processes[10].started_seconds == before


def test_without_a_boot_time_the_start_is_unknown(host: FakeHost) -> None:
    (host.proc / "stat").unlink()
    host.process(10, ["vllm", "serve", "m"])
    table = ProcessTable(str(host.proc), is_relevant)
    table.update(OLD)
    assert table.processes[10].started_seconds is None
