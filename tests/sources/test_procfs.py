"""Parsing of /proc: what the kernel writes comes out in bytes, what it does not write comes out as None."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources import procfs
from agent.sources.smaps import bytes_by_kind, confirm, grown, parse_rollup, parse_smaps, read_mappings
from tests.sources.fake_host import BOOTED, MIB, FakeHost

STATUS = b"""Name:\tVLLM::EngineCor
State:\tR (running)
PPid:\t7
VmRSS:\t    1632 kB
RssAnon:\t     112 kB
RssFile:\t    1520 kB
RssShmem:\t       0 kB
VmSwap:\t       8 kB
HugetlbPages:\t    2048 kB
Threads:\t41
"""


def test_status_gives_memory_in_bytes() -> None:
    status = procfs.parse_status(STATUS)
    assert status.rss_bytes == 1632 * 1024
    assert status.anon_bytes == 112 * 1024
    assert status.file_bytes == 1520 * 1024
    assert status.swap_bytes == 8 * 1024
    assert status.hugetlb_bytes == 2048 * 1024
    assert (status.state, status.parent_pid, status.threads) == ("R", 7, 41)


def test_a_zero_that_the_kernel_wrote_is_a_zero() -> None:
    assert procfs.parse_status(STATUS).shmem_bytes == 0


def test_a_dying_process_has_unknown_memory_and_not_zero() -> None:
    status = procfs.parse_status(b"Name:\tx\nState:\tZ (zombie)\nPPid:\t1\nThreads:\t1\n")
    assert status.state == "Z"
    assert status[3:] == (None,) * 6


@pytest.mark.parametrize("line", [b"VmRSS:\t12 MB", b"VmRSS:\t-5 kB", b"VmRSS:\tmany kB", b"VmRSS:", b"VmRSS:\t12"])
def test_a_memory_line_of_another_form_is_unknown(line: bytes) -> None:
    assert procfs.parse_status(line + b"\n").rss_bytes is None


@given(st.binary())
def test_any_bytes_are_a_status_without_a_crash(content: bytes) -> None:
    for value in procfs.parse_status(content)[3:]:
        assert value is None or value >= 0


@pytest.mark.parametrize("name", ["python3", "VLLM::EngineCor", "a) S 1 (b", "tmux: server", ")", ""])
def test_stat_is_read_whatever_the_name_holds(name: str) -> None:
    fields = ["S", "7", *["0"] * 4, "4194304", *["0"] * 10, "3", "0", "123456", *["0"] * 20]
    stat = procfs.parse_stat(f"41 ({name}) {' '.join(fields)}\n".encode())
    assert (stat.pid, stat.comm, stat.state, stat.parent_pid) == (41, name, "S", 7)
    assert (stat.threads, stat.start_ticks, stat.flags) == (3, 123456, 4194304)


@pytest.mark.parametrize("content", [b"", b"41 (x", b"41 (x) S 1 2", b"41 x S 1 2 3"])
def test_a_stat_line_cut_short_is_an_error_and_no_process(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a stat line"):
        procfs.parse_stat(content)


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"vllm\0serve\0model\0", ("vllm", "serve", "model")),
        (b"VLLM::Worker_TP0\0\0\0\0", ("VLLM::Worker_TP0",)),
        (b"VLLM::Worker_TP0   ", ("VLLM::Worker_TP0",)),
        (b"a\0\0b\0", ("a", "", "b")),
        (b"", ()),
        (b"\0\0", ()),
        (b"\xff\0x\0", ("�", "x")),
    ],
)
def test_a_command_line_is_split_and_its_padding_cut(content: bytes, arguments: tuple[str, ...]) -> None:
    assert procfs.split_command_line(content) == arguments


def test_our_own_process_reads_as_the_kernel_has_it() -> None:
    stat = procfs.read_stat("/proc", os.getpid())
    assert (stat.pid, stat.parent_pid) == (os.getpid(), os.getppid())
    assert procfs.own_pid("/proc") == os.getpid()
    assert os.getpid() in procfs.list_processes("/proc")
    status = procfs.read_status("/proc", os.getpid())
    assert status.rss_bytes is not None
    assert status.rss_bytes > MIB


def test_a_root_in_which_we_do_not_exist_has_no_own_pid(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    assert procfs.own_pid(str(host.proc)) is None
    (host.proc / "self").symlink_to("not-a-pid")
    assert procfs.own_pid(str(host.proc)) is None


def test_host_values_are_read_under_the_given_root(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.available(5 << 30)
    assert procfs.boot_time_seconds(str(host.proc)) == BOOTED
    assert procfs.host_available_bytes(str(host.proc)) == 5 << 30


def test_host_values_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    assert procfs.boot_time_seconds(str(tmp_path)) is None
    assert procfs.host_available_bytes(str(tmp_path)) is None
    assert procfs.hidepid_option(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("options", "hidden"),
    [("rw,nosuid", None), ("rw,hidepid=2", "2"), ("rw,hidepid=invisible,gid=4", "invisible"), ("rw,hidepid=0", None)],
)
def test_hidepid_is_read_from_the_mount_of_this_root(tmp_path: Path, options: str, hidden: str | None) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text(
        f"proc /elsewhere proc rw,hidepid=1 0 0\nproc {tmp_path} proc {options} 0 0\n"
    )
    assert procfs.hidepid_option(str(tmp_path)) == hidden


SMAPS = b"""10000000-14000000 rw-p 00000000 00:00 0                                  [heap]
Size:              65536 kB
Rss:                4096 kB
Pss:                4096 kB
Anonymous:          4096 kB
Swap:               1024 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0004000000 rw-p 00000000 00:00 0
Rss:                2048 kB
Anonymous:          2048 kB
7f0100001000-7f0200000000 rw-p 00000000 00:00 0
Rss:                 512 kB
7f1000000000-7f1000001000 rw-s 00000000 00:1a 77                         /dev/shm/vllm_offload_x.mmap (deleted)
Rss:                   4 kB
7f2000000000-7f2000001000 r-xp 00000000 08:01 5                          /usr/lib/libc with blank.so
Rss:                   4 kB
7ffe00000000-7ffe00100000 rw-p 00000000 00:00 0                          [stack]
Rss:                  64 kB
7f3000000000-7f3000001000 rw-s 00000000 00:05 9                          /dev/nvidia0
"""


def test_smaps_tells_the_kinds_of_memory_apart() -> None:
    assert bytes_by_kind(parse_smaps(SMAPS)) == {
        "heap": 5 * MIB,
        "arena": 2 * MIB,
        "anonymous": MIB // 2,
        "shmem": 4096,
        "file": 4096,
        "stack": 64 * 1024,
        "device": 0,
    }


def test_the_mappings_that_grew_come_largest_first_and_new_ones_count_in_full() -> None:
    before = parse_smaps(SMAPS)
    after = parse_smaps(
        SMAPS.replace(b"Rss:                 512 kB", b"Rss:               99512 kB").replace(
            b"Rss:                4096 kB", b"Rss:                4100 kB"
        )
        + b"7f4000001000-7f4000002000 rw-p 00000000 00:00 0\nRss:                1000 kB\n"
    )
    changes = grown(before, after)
    assert [change.grown_bytes // 1024 for change in changes] == [99000, 1000, 4]
    assert changes[0].mapping.kind == "anonymous"
    assert grown(before, before) == []


def test_rollup_gives_pss_and_what_nobody_else_maps() -> None:
    sizes = b"Rss: 100 kB\nPss: 60 kB\nPrivate_Clean: 8 kB\nPrivate_Dirty: 32 kB\n"
    rollup = parse_rollup(b"00400000-7ffe rw-p 00000000 00:00 0 [rollup]\n" + sizes)
    assert (rollup.rss_bytes, rollup.pss_bytes, rollup.uss_bytes) == (102400, 61440, 40960)


def test_a_confirmation_reads_our_own_process_once() -> None:
    confirmation = confirm(os.getpid())
    assert confirmation.rollup is not None
    assert 0 < confirmation.rollup.uss_bytes <= confirmation.rollup.rss_bytes
    assert sum(mapping.pss_bytes for mapping in read_mappings(os.getpid())) > 0


def test_a_confirmation_refuses_a_process_that_it_would_stall() -> None:
    confirmation = confirm(os.getpid(), below_bytes=MIB)
    assert confirmation.rollup is None
    assert "would stall it" in confirmation.reason


def test_a_confirmation_that_is_not_possible_says_why(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.process(41, "VLLM::EngineCore")
    host.process(42, "VLLM::EngineCore", anon_mib=None)
    (host.proc / "41" / "smaps_rollup").write_text("garbage\n")
    assert "cannot be read" in confirm(41, proc_root=host.proc).reason
    assert "is ending" in confirm(42, proc_root=host.proc).reason
    assert "is gone" in confirm(43, proc_root=host.proc).reason
