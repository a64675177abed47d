"""The reader of process memory: right process to right target, each failure with its end, never a false zero."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from agent.config import config_from_names
from agent.errors import ConfigError
from agent.model import OWN_TARGET, ProcessesObservation, ProcessSample
from agent.sources import processes
from agent.sources.local_processes import ProcessSource
from agent.sources.processes import ProcessReader, TargetHint, psutil_root
from agent.sources.processes_own import own_process
from agent.sources.procfs import read_status
from agent.watch import Watch
from tests.sources.fake_host import BOOTED, MIB, FakeHost, stat_lines
from tests.sources.loopback import TurnedClock

T = BOOTED + 1e6
PREFILL = TargetHint(port=8100)
DECODE = TargetHint(port=8200)


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def fleet(host: FakeHost) -> None:
    """One prefill server with one engine, and a decode server with two data-parallel engines of two workers each."""
    host.process(1, ["init"], parent=0)
    host.process(10, ["/usr/bin/python3", "/usr/bin/vllm", "serve", "m", "--port", "8100"])
    host.process(11, "VLLM::EngineCore", parent=10, anon_mib=300)
    host.process(20, ["vllm", "serve", "m", "--port=8200", "-dp", "2"])
    host.process(21, "VLLM::DPCoordinator", parent=20)
    for rank in (0, 1):
        core = 30 + 10 * rank
        host.process(core, f"VLLM::EngineCore_DP{rank}", parent=20, anon_mib=400 + rank)
        for tensor_rank in (0, 1):
            host.process(core + 1 + tensor_rank, f"VLLM::Worker_TP{tensor_rank}", parent=core, anon_mib=500)
    host.process(50, "VLLM::APIServer_0", parent=20)
    host.process(51, ["python", "-c", "from multiprocessing.resource_tracker import main;main(4)"], parent=30)


def reader(host: FakeHost, **targets: TargetHint) -> ProcessReader:
    hints = targets or {"prefill_0": PREFILL, "decode_0": DECODE}
    return ProcessReader(targets=hints, proc_root=host.proc, cgroup_root=host.cgroup)


def by_pid(observation: ProcessesObservation) -> dict[int, ProcessSample]:
    return {sample.pid: sample for sample in observation.processes}


def codes(observation: ProcessesObservation) -> list[str]:
    return [problem.code for problem in observation.problems]


def test_every_process_of_both_servers_is_read_for_its_target(host: FakeHost) -> None:
    fleet(host)
    prefill, decode = reader(host).read(T)
    assert (prefill.target, sorted(by_pid(prefill))) == ("prefill_0", [10, 11])
    assert (decode.target, sorted(by_pid(decode))) == ("decode_0", [20, 21, 30, 31, 32, 40, 41, 42, 50, 51])
    assert prefill.problems == decode.problems == ()
    assert prefill.t == T


def test_a_sample_holds_what_the_kernel_says_of_its_process(host: FakeHost) -> None:
    fleet(host)
    _, decode = reader(host).read(T)
    assert by_pid(decode)[40] == ProcessSample(
        pid=40,
        title="VLLM::EngineCore_DP1",
        started_seconds=BOOTED + 1000.0,
        parent_pid=20,
        kind="engine_core",
        engine="1",
        rss_bytes=431 * MIB,
        anon_bytes=401 * MIB,
        swap_bytes=0,
        file_bytes=20 * MIB,
        shmem_bytes=10 * MIB,
        hugetlb_bytes=2 * MIB,
        pss_bytes=None,
        threads=7,
        fds=3,
        cache_budget_bytes=0,
    )


def test_kinds_and_engines_follow_the_titles_and_the_tree(host: FakeHost) -> None:
    fleet(host)
    prefill, decode = reader(host).read(T)
    found = {pid: (one.kind, one.engine) for pid, one in by_pid(decode).items()}
    assert found[20] == ("launcher", None)
    assert found[50] == ("api_server", None)
    assert found[21] == ("coordinator", None)
    assert (found[31], found[42]) == (("worker", "0"), ("worker", "1"))
    assert found[51] == ("other", "0")
    assert by_pid(prefill)[10].kind == "api_server"
    assert by_pid(prefill)[10].title == "vllm serve"
    assert by_pid(prefill)[11].engine == "0"


def test_a_headless_launcher_serves_nothing(host: FakeHost) -> None:
    host.process(10, ["vllm", "serve", "m", "--headless"])
    host.process(11, "VLLM::EngineCore_DP4", parent=10)
    (node,) = reader(host, node=TargetHint(command_pattern="--headless")).read(T)
    assert {one.kind for one in node.processes} == {"launcher", "engine_core"}


def test_a_launcher_of_somebodys_own_is_found_by_its_pattern(host: FakeHost) -> None:
    host.process(10, ["/opt/python3.12", "my_serving.py", "--name", "blue"])
    host.process(11, "VLLM::EngineCore", parent=10)
    host.process(12, ["/opt/python3.12", "-c", "from multiprocessing.resource_tracker import main"], parent=10)
    (blue,) = reader(host, blue=TargetHint(command_pattern="my_serving.*blue")).read(T)
    assert {pid: one.kind for pid, one in by_pid(blue).items()} == {
        10: "launcher",
        11: "engine_core",
        12: "other",
    }


def test_a_restart_makes_new_identities_and_tells_who_is_gone(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host, prefill_0=PREFILL)
    (before,) = watch.read(T)
    host.process(10, ["vllm", "serve", "m", "--port", "8100"], started=2000.0)
    host.process(11, "VLLM::EngineCore", parent=10, started=2001.0, anon_mib=5)
    (after,) = watch.read(T)
    assert by_pid(after)[11].started_seconds == BOOTED + 2001.0
    assert by_pid(before)[11].started_seconds == BOOTED + 1000.0
    assert by_pid(after)[11].anon_bytes == 5 * MIB
    assert sorted(problem.text for problem in after.problems) == [
        "VLLM::EngineCore (pid 11) is gone",
        "vllm serve (pid 10) is gone",
    ]
    assert codes(watch.read(T)[0]) == []


def test_a_pid_reused_by_another_program_is_not_the_server(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host, decode_0=DECODE)
    watch.read(T)
    host.process(41, ["backup", "--all"], parent=1, started=9000.0, anon_mib=9999)
    (after,) = watch.read(T)
    assert 41 not in by_pid(after)
    assert codes(after) == ["process_gone"]


def test_a_process_that_changes_its_title_keeps_its_identity(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host, prefill_0=PREFILL)
    before = by_pid(watch.read(T)[0])[11]
    (host.proc / "11" / "cmdline").write_bytes(b"VLLM::EngineCore_DP0\0\0\0\0")
    after = by_pid(watch.read(T)[0])[11]
    assert (before.title, after.title) == ("VLLM::EngineCore", "VLLM::EngineCore_DP0")
    assert before.started_seconds == after.started_seconds


def test_a_zombie_is_dead_and_has_no_memory(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host, decode_0=DECODE)
    watch.read(T)
    host.process(41, (), comm="VLLM::Worker_TP", parent=40, state="Z", anon_mib=None)
    (after,) = watch.read(T)
    assert 41 not in by_pid(after)
    assert codes(after) == ["process_gone"]
    assert after.problems[0].pid == 41
    assert "zombie" in after.problems[0].text


def test_a_process_whose_memory_is_already_released_is_not_a_process_of_zero_bytes(host: FakeHost) -> None:
    fleet(host)
    host.process(31, "VLLM::Worker_TP0", parent=30, anon_mib=None)
    (decode,) = reader(host, decode_0=DECODE).read(T)
    assert 31 not in by_pid(decode)
    assert "is ending" in decode.problems[0].text


def test_a_helper_that_ends_is_no_problem(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host, decode_0=DECODE)
    watch.read(T)
    host.remove(51)
    assert watch.read(T)[0].problems == ()


def test_a_server_that_is_gone_leaves_an_unobserved_target(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host)
    watch.read(T)
    host.remove(10, 11)
    prefill, decode = watch.read(T)
    assert prefill.processes == ()
    assert codes(prefill) == ["process_gone", "process_gone", "process_unreadable"]
    assert "target process not found; memory not observed" in prefill.problems[-1].text
    assert len(decode.processes) == 10
    assert codes(watch.read(T)[0]) == ["process_unreadable"]


def test_workers_left_by_a_dead_server_are_still_read_for_its_target(host: FakeHost) -> None:
    fleet(host)
    watch = reader(host)
    watch.read(T)
    host.remove(20, 21, 30, 31, 32, 40, 41, 50, 51)
    host.process(42, "VLLM::Worker_TP1", parent=1, anon_mib=500)
    _, decode = watch.read(T)
    assert [sample.pid for sample in decode.processes] == [42]
    assert by_pid(decode)[42].anon_bytes == 500 * MIB


def test_a_pid_that_names_another_process_is_refused(host: FakeHost) -> None:
    fleet(host)
    host.process(17, ["bash"])
    (found,) = reader(host, a=TargetHint(pid=17)).read(T)
    assert found.processes == ()
    assert "target process not found; memory not observed" in found.problems[0].text


def test_sockets_find_the_server_whose_command_line_names_no_port(host: FakeHost) -> None:
    for pid, port in ((10, 9701), (20, 9702)):
        host.process(pid, ["python3", "-m", "dynamo.vllm", "--model", "m"])
        host.process(pid + 1, "VLLM::EngineCore", parent=pid)
        host.listen(pid, port)
    (found,) = reader(host, a=TargetHint(port=9702)).read(T)
    assert sorted(by_pid(found)) == [20, 21]


def test_a_socket_that_opens_later_is_found_later(host: FakeHost) -> None:
    host.process(10, ["python3", "-m", "dynamo.vllm"])
    watch = reader(host, a=TargetHint(port=9701))
    assert codes(watch.read(T)[0]) == ["process_unreadable"]
    host.listen(10, 5600, 9701)
    assert sorted(by_pid(watch.read(T)[0])) == [10]


# How each of psutil's failures ends. The same table is in docs/processes.md.


def failing(monkeypatch: pytest.MonkeyPatch, method: str, pid: int, error: Exception) -> None:
    original = getattr(psutil.Process, method)

    def raising(self: psutil.Process):
        if self.pid == pid:
            raise error
        return original(self)

    monkeypatch.setattr(psutil.Process, method, raising)


def test_access_denied_to_descriptors_leaves_them_unknown_and_the_memory_read(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(host)
    failing(monkeypatch, "num_fds", 11, psutil.AccessDenied(11))
    (prefill,) = reader(host, prefill_0=PREFILL).read(T)
    assert by_pid(prefill)[11].fds is None
    assert by_pid(prefill)[11].anon_bytes == 300 * MIB
    assert by_pid(prefill)[10].fds == 3
    assert prefill.problems == ()


def test_access_denied_to_a_process_makes_it_unreadable_and_neither_gone_nor_zero(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(host)
    watch = reader(host, prefill_0=PREFILL)
    watch.read(T)
    failing(monkeypatch, "cmdline", 11, psutil.AccessDenied(11))
    for _ in range(2):
        (prefill,) = watch.read(T)
        assert sorted(by_pid(prefill)) == [10]
        assert codes(prefill) == ["process_unreadable"]
        assert prefill.problems[0].pid == 11


def test_a_process_that_ends_while_it_is_read_is_gone(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet(host)
    failing(monkeypatch, "cmdline", 11, psutil.NoSuchProcess(11))
    (prefill,) = reader(host, prefill_0=PREFILL).read(T)
    assert sorted(by_pid(prefill)) == [10]
    assert [problem.text for problem in prefill.problems] == ["VLLM::EngineCore (pid 11) is gone"]


def test_a_process_that_becomes_a_zombie_while_it_is_read_is_dead(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(host)
    failing(monkeypatch, "cmdline", 11, psutil.ZombieProcess(11))
    (prefill,) = reader(host, prefill_0=PREFILL).read(T)
    assert sorted(by_pid(prefill)) == [10]
    assert [problem.text for problem in prefill.problems] == [
        "VLLM::EngineCore (pid 11) is a zombie: dead and not yet reaped"
    ]


def test_a_pid_reused_while_it_is_read_is_gone(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet(host)

    def swapping(proc_root: str, pid: int):
        status = read_status(proc_root, pid)
        if pid == 11:
            host.process(11, ["backup"], started=9000.0)
        return status

    monkeypatch.setattr(processes, "read_status", swapping)
    (prefill,) = reader(host, prefill_0=PREFILL).read(T)
    assert sorted(by_pid(prefill)) == [10]
    assert codes(prefill) == ["process_gone"]


def test_a_hidden_proc_is_named_as_the_reason(host: FakeHost) -> None:
    host.we_are(99, group="0::/ours")
    (host.proc / "99" / "mounts").write_text(f"proc {host.proc} proc rw,hidepid=2 0 0\n")
    (found,) = reader(host, a=TargetHint(port=8000)).read(T)
    assert found.processes == ()
    assert codes(found) == ["process_unreadable"]
    assert "hidepid=2" in found.problems[0].text


def test_a_foreign_namespace_shows_the_containers_memory_when_others_live_in_it(host: FakeHost) -> None:
    host.we_are(7, group="0::/pod")
    host.group_v2("pod", cgroup_procs="7\n0\n0", memory_max=100 * MIB, memory_stat=stat_lines(anon=60 * MIB))
    (found,) = reader(host, a=TargetHint(port=8000)).read(T)
    assert found.processes == ()
    assert found.cgroup is not None
    assert (found.cgroup.limit_bytes, found.cgroup.anon_bytes) == (100 * MIB, 60 * MIB)
    assert "its container as a whole" in found.problems[0].text


def test_a_container_of_our_own_is_not_passed_off_as_the_servers(host: FakeHost) -> None:
    host.we_are(7, group="0::/ours")
    host.group_v2("ours", cgroup_procs="7", memory_max=100 * MIB, memory_stat=stat_lines(anon=60 * MIB))
    (found,) = reader(host, a=TargetHint(port=8000)).read(T)
    assert found.cgroup is not None
    assert (found.cgroup.limit_bytes, found.cgroup.anon_bytes) == (None, None)
    assert found.cgroup.host_available_bytes == 64 << 30


def test_a_configured_group_is_shown_for_a_target_whose_processes_are_hidden(host: FakeHost) -> None:
    directory = host.group_v2("pod/server", memory_max=70 * MIB, memory_stat=stat_lines(anon=9 * MIB))
    hints = {"a": TargetHint(port=8000, cgroup=str(directory)), "b": TargetHint(port=8001)}
    first, second = reader(host, **hints).read(T)
    assert first.cgroup is not None
    assert (first.cgroup.limit_bytes, first.cgroup.anon_bytes) == (70 * MIB, 9 * MIB)
    assert second.cgroup is not None
    assert second.cgroup.anon_bytes is None


def test_a_proc_root_in_which_we_do_not_exist_is_read_all_the_same(host: FakeHost) -> None:
    fleet(host)
    prefill, _ = reader(host).read(T)
    assert len(prefill.processes) == 2
    assert own_process(host.proc) is None


def test_a_proc_root_that_is_not_there_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    watch = ProcessReader(targets={"a": DECODE, "b": PREFILL}, proc_root=tmp_path / "nothing", cgroup_root=tmp_path)
    for observation in watch.read(T):
        assert codes(observation) == ["process_unreadable"]
        assert observation.cgroup is None
        assert "cannot be listed" in observation.problems[0].text


# The rest of the observation.


def test_the_servers_group_is_in_the_observation(host: FakeHost) -> None:
    host.group_v2("pod", memory_max=500 * MIB, memory_stat=stat_lines(anon=70 * MIB), memory_events="oom_kill 1")
    host.process(10, ["vllm", "serve", "m"], group="0::/pod")
    (found,) = reader(host, a=TargetHint(port=8000)).read(T)
    assert found.cgroup is not None
    assert (found.cgroup.limit_bytes, found.cgroup.anon_bytes, found.cgroup.oom_kills) == (500 * MIB, 70 * MIB, 1)


def test_a_server_moved_to_another_group_is_followed(host: FakeHost) -> None:
    for name, limit in (("a", 5), ("b", 7)):
        host.group_v2(name, memory_max=limit * MIB, memory_stat=stat_lines(anon=MIB))
    directory = host.process(10, ["vllm", "serve", "m"], group="0::/a")
    watch = reader(host, a=TargetHint(port=8000))
    limits = []
    for path in ("a", "b"):
        (directory / "cgroup").write_text(f"0::/{path}\n")
        cgroup = watch.read(T)[0].cgroup
        limits.append(cgroup.limit_bytes if cgroup else None)
    assert limits == [5 * MIB, 7 * MIB]


def test_budgets_come_from_the_launcher_of_the_target(host: FakeHost) -> None:
    host.process(10, ["vllm", "serve", "m", "--mm-processor-cache-gb", "2"])
    watch = reader(host, a=TargetHint(port=8000))
    assert watch.budgets("a") == []
    watch.read(T)
    assert [(budget.name, budget.size_bytes) for budget in watch.budgets("a")] == [
        ("multi_modal_processor_cache", 2 << 30)
    ]
    host.remove(10)
    watch.read(T)
    assert watch.budgets("a") == []


def test_a_pattern_that_is_no_regular_expression_is_refused_at_start(host: FakeHost) -> None:
    with pytest.raises(ConfigError, match=r"target a: command_pattern '\(' is not a regular expression"):
        reader(host, a=TargetHint(command_pattern="("))


def test_psutils_root_is_put_back_even_after_a_failure(host: FakeHost) -> None:
    fleet(host)
    reader(host).read(T)
    assert psutil.PROCFS_PATH == "/proc"
    with pytest.raises(RuntimeError), psutil_root(str(host.proc)):
        raise RuntimeError
    assert psutil.PROCFS_PATH == "/proc"


def test_we_can_read_ourselves() -> None:
    own = own_process()
    assert own is not None
    assert own.title == "agent"
    assert own.anon_bytes is not None
    assert own.anon_bytes > 0
    assert own.fds is not None


async def test_pdwatch_watches_its_own_memory_as_it_does_others(host: FakeHost) -> None:
    host.process(4242, ["python", "pdwatch", "run"], anon_mib=50)
    (host.proc / "self").symlink_to("4242")
    watch = Watch(config_from_names(["decode-0", OWN_TARGET]))
    clock = TurnedClock(wall=T)
    source = ProcessSource(watch.config, watch.observe, clock, proc_root=host.proc)
    task = asyncio.create_task(source.run())
    for _ in range(3):
        await clock.sleeping(1)
        clock.turn(15.0)
    await clock.sleeping(1)
    task.cancel()
    (shown,) = watch.state(clock.wall()).memory
    assert (shown.target, shown.title, shown.anon_bytes) == (OWN_TARGET, "agent", 50 * MIB)
    assert shown.trend == "warming"
    assert watch.ignored == {}
