"""A closer look at a leaking process: real children, a fake proc root, and commands that misbehave."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent.config.types import Memory
from agent.sources import examination
from agent.sources.examination import Examiner, Life, grown_sentence, held_sentence, run_bounded
from agent.sources.smaps import Confirmation, Mapping

MIB = 1 << 20
GROWS = """
import mmap, sys
kept = []
print("ready", flush=True)
for line in sys.stdin:
    kept.append(mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    kept[-1].write(b"x" * (32 << 20))
    print("grown", flush=True)
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", GROWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def grow(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "grown\n"


def life_of(pid: int) -> Life:
    return Life(pid, psutil.Process(pid).create_time())


def mapping(kind: str, start: int, mib: int, name: str = "") -> Mapping:
    return Mapping(start, kind, name, mib * MIB, mib * MIB, mib * MIB, mib * MIB, 0)  # type: ignore[arg-type]


def test_a_process_that_grew_since_its_warm_up_is_described_by_kind_and_mapping(child):
    examiner = Examiner(Memory(mappings=True), None)
    life = life_of(child.pid)
    asyncio.run(examiner.warmed_up(life, 1000.0))
    grow(child)
    sentence = asyncio.run(examiner.leaks(life, "VLLM::EngineCore", 1000.0 + 7200.0))
    assert sentence.startswith("in 2.0 h its mappings changed by ")
    assert "anonymous +32 MiB" in sentence or "anonymous +33 MiB" in sentence


def test_without_an_earlier_reading_it_says_what_the_process_holds(child):
    grow(child)
    sentence = asyncio.run(Examiner(Memory(mappings=True), None).leaks(life_of(child.pid), "x", 0.0))
    assert "no earlier reading" in sentence
    assert "anonymous" in sentence


def test_a_process_that_took_over_the_pid_is_left_alone(child, tmp_path):
    touched = tmp_path / "ran"
    settings = Memory(mappings=True, evidence_command=("touch", str(touched)))
    other = Life(child.pid, psutil.Process(child.pid).create_time() - 60.0)
    assert asyncio.run(Examiner(settings, tmp_path / "out").leaks(other, "x", 0.0)) == ""
    assert not touched.exists()


def test_the_evidence_command_runs_once_in_a_life_and_keeps_its_output(child, tmp_path):
    examiner = Examiner(Memory(evidence_command=("echo", "stack of", "{pid}")), tmp_path / "out")
    life = life_of(child.pid)
    first = asyncio.run(examiner.leaks(life, "VLLM::EngineCore_DP0", 1_800_000_000.0))
    again = asyncio.run(examiner.leaks(life, "VLLM::EngineCore_DP0", 1_800_009_999.0))
    files = list((tmp_path / "out").iterdir())
    assert first == again
    assert "ended with exit code 0" in first
    assert str(files[0]) in first
    assert [file.read_text() for file in files] == [f"stack of {child.pid}\n"]
    assert files[0].name.endswith(f"-VLLM-EngineCore_DP0-{child.pid}.txt")


def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(tmp_path):
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; echo begun; wait"
    how = asyncio.run(run_bounded(("sh", "-c", script), tmp_path / "out", 1.0))
    assert how == "was ended after 1 s"
    assert (tmp_path / "out").read_text() == "begun\n"
    grandchild = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE


def test_a_command_that_never_stops_writing_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "MOST_OUTPUT_BYTES", 1 << 20)
    how = asyncio.run(run_bounded(("yes",), tmp_path / "out", 60.0))
    assert how == "was ended at 1 MiB of output"
    assert (tmp_path / "out").stat().st_size == 1 << 20


@pytest.mark.parametrize(
    ("command", "directory", "says"),
    [
        (("/does/not/exist",), "out", "the evidence command failed: No such file or directory"),
        (("true",), None, "the evidence command was not run: without state_dir there is no place for its output"),
    ],
)
def test_a_command_that_cannot_run_is_said(child, tmp_path, command, directory, says):
    examiner = Examiner(Memory(evidence_command=command), tmp_path / directory if directory else None)
    assert asyncio.run(examiner.leaks(life_of(child.pid), "x", 0.0)) == says


def test_the_oldest_outputs_make_room(child, tmp_path):
    for number in range(30):
        (tmp_path / f"20250101T0000{number:02d}Z-x-1.txt").write_text("old")
    examiner = Examiner(Memory(evidence_command=("true",)), tmp_path)
    asyncio.run(examiner.leaks(life_of(child.pid), "x", 1_800_000_000.0))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == examination.MOST_FILES
    assert names[-1].startswith("2027")


def test_nothing_is_read_or_run_unless_it_is_configured(child, tmp_path):
    examiner = Examiner(Memory(), tmp_path)
    assert not examiner.wanted
    asyncio.run(examiner.warmed_up(life_of(child.pid), 0.0))
    assert asyncio.run(examiner.leaks(life_of(child.pid), "x", 0.0)) == ""
    assert list(tmp_path.iterdir()) == []


def test_mappings_that_may_not_be_read_are_said_with_the_reason(tmp_path, monkeypatch):
    def denied(*_: object, **__: object) -> Confirmation:
        return Confirmation(None, "smaps_rollup of process 7 may not be read: it needs CAP_SYS_PTRACE")

    monkeypatch.setattr(examination, "confirm", denied)
    sentence = asyncio.run(Examiner(Memory(mappings=True), None).leaks(life_of(os.getpid()), "x", 0.0))
    assert sentence == "its mappings were not read: smaps_rollup of process 7 may not be read: it needs CAP_SYS_PTRACE"


def test_a_gone_process_is_passed_over(tmp_path: Path):
    examiner = Examiner(Memory(mappings=True), None, proc_root=tmp_path)
    assert asyncio.run(examiner.leaks(Life(1, 5.0), "x", 0.0)) == ""


def test_kinds_and_mappings_are_named_by_growth():
    before = [mapping("heap", 1, 10, "[heap]"), mapping("anonymous", 2, 5), mapping("file", 3, 40, "/lib/x.so")]
    after = [mapping("heap", 1, 110, "[heap]"), mapping("anonymous", 2, 5), mapping("file", 3, 39, "/lib/x.so")]
    assert grown_sentence(before, after, 3600.0) == (
        "in 1.0 h its mappings changed by heap +100 MiB, file -1 MiB; most in [heap] +100 MiB"
    )
    assert grown_sentence(before, before, 3600.0) == "none of its mappings grew in the last 1.0 h"
    assert held_sentence([]) == ""
