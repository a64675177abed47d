"""A real server's process tree: children under vLLM's titles that really allocate, restart and die.

The launcher is a Python script called `vllm` that is started as `vllm serve`; its children rename themselves by
their argument 0 and the kernel's 15-byte name. Each does what its standard input says: nothing waits for time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.model import ProcessesObservation, ProcessSample
from agent.sources.processes import ProcessReader, TargetHint
from agent.sources.smaps import bytes_by_kind, confirm, grown, read_mappings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MIB = 1 << 20
PORT = 58_200

CHILD = """
import ctypes, mmap, sys

title, path = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.prctl(15, title.encode()[:15], 0, 0, 0)
libc.malloc.restype = ctypes.c_void_p
kept = []

def heap(size):
    for _ in range(size // 65536):
        address = libc.malloc(65536)
        ctypes.memset(address, 1, 65536)
        kept.append(address)

def keep_touched(region, size):
    for offset in range(0, size, 4096):
        region[offset : offset + 1] = b"x"
    kept.append(region)

def mapped(size):
    keep_touched(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), size)

def shmem(size):
    keep_touched(mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS), size)

def file(size):
    with open(path, "w+b") as f:
        f.truncate(size)
        keep_touched(mmap.mmap(f.fileno(), size), size)

print("ready", flush=True)
for line in sys.stdin:
    what, size = line.split()
    {"heap": heap, "mapped": mapped, "shmem": shmem, "file": file}[what](int(size))
    print("done", flush=True)
"""

LAUNCHER = """
import os, subprocess, sys

children = {}

def start(title):
    child = children[title] = subprocess.Popen(
        [title, "-c", CHILD, title, "mapped-" + str(os.getpid())],
        executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    child.stdout.readline()

for title in TITLES:
    start(title)
print("ready", flush=True)
for line in sys.stdin:
    verb, title, *rest = line.split()
    child = children[title]
    if verb == "tell":
        child.stdin.write(" ".join(rest) + chr(10))
        child.stdin.flush()
        child.stdout.readline()
    elif verb == "kill":
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    elif verb == "restart":
        child.wait()
        start(title)
    print("done", flush=True)
"""

TITLES = ("VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1", "VLLM::Worker_DP1_TP0")


class Fleet:
    """One fake server with real children."""

    def __init__(self, directory: Path) -> None:
        script = directory / "vllm"
        script.write_text(f"CHILD = {CHILD!r}\nTITLES = {TITLES!r}\n{LAUNCHER}")
        # The children's argument 0 is no path, so Python is told where its library is.
        environment = {"PYTHONHOME": sys.base_prefix, "PATH": os.environ.get("PATH", "")}
        python = getattr(sys, "_base_executable", sys.executable)
        self.launcher = subprocess.Popen(
            [python, str(script), "serve", "model", "--port", str(PORT)],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._wait()

    def _wait(self) -> None:
        assert self.launcher.stdout is not None
        answer = self.launcher.stdout.readline()
        assert answer, "the launcher has died"

    def do(self, *words: object) -> None:
        assert self.launcher.stdin is not None
        self.launcher.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.launcher.stdin.flush()
        self._wait()

    def stop(self) -> None:
        assert self.launcher.stdin is not None
        assert self.launcher.stdout is not None
        self.launcher.kill()  # the children end with their standard input
        self.launcher.stdin.close()
        self.launcher.stdout.close()
        self.launcher.wait()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    running = Fleet(tmp_path)
    yield running
    running.stop()


def read(watch: ProcessReader) -> ProcessesObservation:
    (observation,) = watch.read(time.time())
    return observation


def by_title(observation: ProcessesObservation) -> dict[str, ProcessSample]:
    return {sample.title: sample for sample in observation.processes}


def watching() -> ProcessReader:
    return ProcessReader(targets={"decode-0": TargetHint(port=PORT)})


def test_the_tree_is_found_by_its_port_with_titles_kinds_and_engines(fleet: Fleet) -> None:
    found = by_title(read(watching()))
    assert {title: (one.kind, one.engine) for title, one in found.items()} == {
        "vllm serve": ("api_server", None),
        "VLLM::EngineCore_DP0": ("engine_core", "0"),
        "VLLM::EngineCore_DP1": ("engine_core", "1"),
        "VLLM::Worker_DP1_TP0": ("worker", "1"),
    }
    for sample in found.values():
        assert sample.anon_bytes is not None
        assert sample.anon_bytes > MIB
        assert sample.started_seconds is not None
        assert abs(sample.started_seconds - time.time()) < 120


@pytest.mark.parametrize(
    ("what", "field"),
    [("heap", "anon_bytes"), ("mapped", "anon_bytes"), ("shmem", "shmem_bytes"), ("file", "file_bytes")],
)
def test_growth_shows_in_the_right_process_the_right_measure_and_nowhere_else(
    fleet: Fleet, what: str, field: str
) -> None:
    watch = watching()
    before = by_title(read(watch))
    fleet.do("tell", "VLLM::EngineCore_DP1", what, 24 * MIB)
    after = by_title(read(watch))
    for title, sample in after.items():
        for measure in ("anon_bytes", "shmem_bytes", "file_bytes"):
            growth = getattr(sample, measure) - getattr(before[title], measure)
            if title == "VLLM::EngineCore_DP1" and measure == field:
                assert growth == pytest.approx(24 * MIB, rel=0.1)
            else:
                assert abs(growth) < 4 * MIB


def test_the_mapping_that_grew_is_named_by_its_kind(fleet: Fleet) -> None:
    pid = by_title(read(watching()))["VLLM::EngineCore_DP0"].pid
    try:
        before = read_mappings(pid)
    except PermissionError:
        pytest.skip("smaps of our own children may not be read here")
    fleet.do("tell", "VLLM::EngineCore_DP0", "heap", 16 * MIB)
    fleet.do("tell", "VLLM::EngineCore_DP0", "shmem", 8 * MIB)
    after = read_mappings(pid)
    changes = grown(before, after)
    assert (changes[0].mapping.kind, changes[1].mapping.kind) == ("heap", "shmem")
    assert bytes_by_kind(after)["shmem"] >= 8 * MIB
    confirmation = confirm(pid)
    assert confirmation.rollup is not None
    assert confirmation.rollup.uss_bytes >= 16 * MIB


def test_an_engine_that_a_signal_stopped_is_named_from_the_second_round_until_it_goes_on(fleet: Fleet) -> None:
    watch = watching()
    pid = by_title(read(watch))["VLLM::EngineCore_DP0"].pid
    os.kill(pid, signal.SIGSTOP)
    while "\nState:\tT" not in Path(f"/proc/{pid}/status").read_text():
        os.sched_yield()
    try:
        first, second = ([problem.code for problem in read(watch).problems] for _ in range(2))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert first == []
    assert second == ["engine_frozen"]
    while "\nState:\tT" in Path(f"/proc/{pid}/status").read_text():
        os.sched_yield()
    read(watch)
    assert read(watch).problems == ()


def test_a_killed_child_is_a_zombie_until_it_is_reaped_and_its_successor_another_process(fleet: Fleet) -> None:
    watch = watching()
    before = by_title(read(watch))
    fleet.do("kill", "VLLM::EngineCore_DP0")
    dead = read(watch)
    assert "VLLM::EngineCore_DP0" not in by_title(dead)
    assert [(problem.code, problem.pid) for problem in dead.problems] == [
        ("process_gone", before["VLLM::EngineCore_DP0"].pid)
    ]
    assert "zombie" in dead.problems[0].text
    fleet.do("restart", "VLLM::EngineCore_DP0")
    after = read(watch)
    successor = by_title(after)["VLLM::EngineCore_DP0"]
    assert successor.pid != before["VLLM::EngineCore_DP0"].pid
    assert after.problems == ()


def run_elsewhere(code: str, *before: str, setup: str = "") -> None:
    """Runs code in another process as nobody, behind a command such as `unshare`; skips where that is impossible."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can become another user or enter another namespace")
    # Everything is imported while we may still read it.
    program = f"""
import os, subprocess, sys, time
from agent.sources.processes import ProcessReader, TargetHint
from agent.sources.smaps import confirm
if {setup!r} and subprocess.run({setup!r}, shell=True, stderr=subprocess.DEVNULL).returncode:
    sys.exit(77)
os.setgid(65534)
os.setuid(65534)
def read():
    hints = {{"a": TargetHint(port={PORT})}}
    (one,) = ProcessReader(targets=hints).read(time.time())
    return one
{code}
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    result = subprocess.run([*before, sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("this machine allows no namespaces or mounts")
    assert result.returncode == 0, result.stderr


def test_a_reader_without_rights_reads_memory_and_leaves_descriptors_unknown(fleet: Fleet) -> None:
    run_elsewhere("""
one = read()
assert len(one.processes) == 4, one
assert one.problems == (), one.problems
assert all(p.anon_bytes > 0 and p.rss_bytes > 0 and p.started_seconds for p in one.processes)
assert all(p.fds is None and p.pss_bytes is None for p in one.processes), one.processes
answer = confirm(one.processes[0].pid)
assert answer.rollup is None and "CAP_SYS_PTRACE" in answer.reason, answer
""")


@pytest.mark.parametrize("hidepid", [1, 2])
def test_a_proc_that_hides_other_users_is_named_as_the_reason(fleet: Fleet, hidepid: int) -> None:
    run_elsewhere(
        """
one = read()
assert one.processes == (), one
assert [problem.code for problem in one.problems] == ["process_unreadable"], one.problems
assert "/proc is mounted with hidepid=" in one.problems[0].text, one.problems
""",
        "unshare",
        "--mount",
        setup=f"mount -t proc -o hidepid={hidepid} proc /proc",
    )


def test_in_a_foreign_pid_namespace_the_target_is_not_found_and_its_memory_unknown(fleet: Fleet) -> None:
    run_elsewhere(
        """
one = read()
assert one.processes == (), one
assert "target process not found; memory not observed" in one.problems[0].text, one.problems
""",
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
    )


def test_from_a_foreign_pid_namespace_a_mounted_proc_root_shows_the_host(fleet: Fleet) -> None:
    run_elsewhere(
        """
one = read()
assert os.getpid() == 1
assert len(one.processes) == 4, one
assert one.problems == (), one.problems
""",
        "unshare",
        "--pid",
        "--fork",
    )
