"""Memory groups: which level kills first, what counts as use, and what is said when something cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.model import CgroupSample
from agent.sources.cgroups import (
    find_memory_group,
    group_processes,
    memory_group_at,
    read_memory_group,
    unreclaimable_bytes,
)
from tests.sources.fake_host import FakeHost, stat_lines

GIB = 1 << 30
SENTINEL = 9223372036854771712


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def sample_of(host: FakeHost, pid: int = 41, available: int | None = None) -> CgroupSample:
    group = find_memory_group(host.proc, host.cgroup, pid)
    assert group is not None
    return read_memory_group(group, available)


def gib(value: float) -> int:
    return round(value * GIB)


def test_weights_in_the_page_cache_are_not_use(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")
    host.group_v2(
        "pod",
        memory_max=gib(70),
        memory_current=gib(69.55),
        memory_stat=stat_lines(
            anon=gib(0.7), file=gib(68.9), inactive_file=gib(51.1), active_file=gib(15.7), shmem=gib(0.1)
        ),
    )
    sample = sample_of(host)
    used = unreclaimable_bytes(sample)
    assert used == pytest.approx(0.8 * GIB, rel=1e-6)
    assert sample.limit_bytes is not None
    assert used is not None
    assert used / sample.limit_bytes == pytest.approx(0.0114, abs=1e-4)
    assert (sample.current_bytes, sample.file_bytes) == (gib(69.55), gib(68.9))
    assert not sample.over_estimate


def test_without_the_split_into_kinds_raw_use_is_an_over_estimate_and_says_so(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")
    host.group_v2("pod", memory_max=gib(70), memory_current=gib(69.55))
    sample = sample_of(host)
    assert sample.over_estimate
    assert sample.anon_bytes is None
    assert unreclaimable_bytes(sample) == gib(69.55)


def test_a_group_of_which_nothing_is_readable_is_unknown_and_not_zero(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")
    host.group_v2("pod")
    assert sample_of(host, available=GIB) == CgroupSample(host_available_bytes=GIB)
    assert unreclaimable_bytes(sample_of(host)) is None


@pytest.mark.parametrize(
    ("stat", "kernel"),
    [
        ({"anon": 1, "kernel": 1000, "slab_reclaimable": 300, "sock": 50}, 750),
        ({"anon": 1, "kernel_stack": 10, "pagetables": 20, "percpu": 5, "slab_unreclaimable": 7, "slab": 99}, 42),
        ({"anon": 1, "kernel": 10, "slab_reclaimable": 30}, 0),
        ({"anon": 1}, None),
    ],
)
def test_kernel_memory_counts_without_the_slabs_that_it_gives_back(
    host: FakeHost, stat: dict[str, int], kernel: int | None
) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")
    host.group_v2("pod", memory_current=5000, memory_stat=stat_lines(**stat))
    sample = sample_of(host)
    assert sample.kernel_bytes == kernel
    assert unreclaimable_bytes(sample) == 1 + (kernel or 0)


def test_max_means_no_limit(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")
    host.group_v2("pod", memory_max="max", memory_current=5, memory_stat=stat_lines(anon=3))
    assert sample_of(host).limit_bytes is None


def test_of_nested_groups_the_one_with_the_least_room_counts_with_its_own_use(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod/server")
    host.group_v2(memory_stat=stat_lines(anon=gib(60)))
    host.group_v2("pod", memory_max=gib(100), memory_current=gib(95), memory_stat=stat_lines(anon=gib(90)))
    host.group_v2("pod/server", memory_max=gib(50), memory_current=gib(12), memory_stat=stat_lines(anon=gib(10)))
    sample = sample_of(host)  # 10 of 100 GiB left in the pod, 40 of 50 GiB in the server's own group
    assert (sample.limit_bytes, sample.anon_bytes) == (gib(100), gib(90))


def test_a_limit_above_counts_where_the_own_group_has_none(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod/server")
    host.group_v2("pod", memory_max=gib(100), memory_current=gib(20), memory_stat=stat_lines(anon=gib(15)))
    host.group_v2("pod/server", memory_max="max", memory_stat=stat_lines(anon=gib(10)))
    assert (sample_of(host).limit_bytes, sample_of(host).anon_bytes) == (gib(100), gib(15))


def test_a_limit_changed_under_a_running_server_is_seen(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")
    directory = host.group_v2("pod", memory_max=gib(100), memory_stat=stat_lines(anon=1))
    group = find_memory_group(host.proc, host.cgroup, 41)
    assert group is not None
    (directory / "memory.max").write_text(f"{gib(40)}\n")
    assert read_memory_group(group).limit_bytes == gib(40)


def test_kills_by_the_kernel_are_those_of_the_own_group(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod/server")
    host.group_v2("pod", memory_max=1000, memory_events="oom 9\noom_kill 7", memory_stat=stat_lines(anon=900))
    host.group_v2("pod/server", memory_events="low 0\nhigh 0\nmax 4\noom 3\noom_kill 2")
    assert sample_of(host).oom_kills == 2


def test_version_1_reads_the_totals_of_a_hierarchy(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="8:pids:/x\n4:memory,hugetlb:/docker/abc\n0::/")
    host.group_v1(memory_limit_in_bytes=SENTINEL)
    host.group_v1(
        "docker/abc",
        memory_limit_in_bytes=gib(30),
        memory_usage_in_bytes=gib(29),
        memory_stat=stat_lines(rss=1, cache=2, shmem=3, total_rss=gib(4), total_cache=gib(24), total_shmem=gib(1)),
        memory_oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 5",
    )
    (host.cgroup / "memory/docker/abc/memory.kmem.usage_in_bytes").write_text(f"{gib(0.5)}\n")
    sample = sample_of(host)
    assert (sample.limit_bytes, sample.current_bytes) == (gib(30), gib(29))
    assert (sample.anon_bytes, sample.file_bytes, sample.shmem_bytes) == (gib(4), gib(24), gib(1))
    assert sample.oom_kills == 5
    assert unreclaimable_bytes(sample) == gib(5.5)


@pytest.mark.parametrize("sentinel", [SENTINEL, 9223372036854710272, 2**63 - 1])
def test_the_largest_number_of_version_1_means_no_limit(host: FakeHost, sentinel: int) -> None:
    host.process(41, "VLLM::EngineCore", group="4:memory:/")
    host.group_v1(memory_limit_in_bytes=sentinel, memory_usage_in_bytes=9, memory_stat="total_rss 5")
    assert sample_of(host).limit_bytes is None


def test_in_a_mixed_hierarchy_memory_is_where_version_1_has_it(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="4:memory:/a\n1:name=systemd:/b\n0::/c")
    host.group_v1("a", memory_usage_in_bytes=11, memory_stat="total_rss 7")
    group = find_memory_group(host.proc, host.cgroup, 41)
    assert group is not None
    assert group.version == 1
    assert read_memory_group(group).anon_bytes == 7


def test_a_container_that_sees_its_own_group_as_the_root_is_understood(host: FakeHost) -> None:
    path = "4:memory:/docker/abc"
    host.we_are(7, path)
    host.process(41, "VLLM::EngineCore", group=path)
    host.process(42, "VLLM::EngineCore", group="4:memory:/docker/other")
    host.group_v1(memory_limit_in_bytes=gib(9), memory_usage_in_bytes=5, memory_stat="total_rss 3")
    assert sample_of(host).limit_bytes == gib(9)
    assert find_memory_group(host.proc, host.cgroup, 42) is None


def test_a_group_outside_our_namespace_is_found_by_its_unique_name(host: FakeHost) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/../cri-abc.scope")
    host.process(42, "VLLM::EngineCore", group="0::/../cri-twice.scope")
    host.process(43, "VLLM::EngineCore", group="0::/..")
    host.group_v2("kubepods/pod1/cri-abc.scope", memory_max=gib(3), memory_stat=stat_lines(anon=1))
    host.group_v2("kubepods/pod1", memory_max=gib(2), memory_stat=stat_lines(anon=1))
    host.group_v2("kubepods/pod1/cri-twice.scope")
    host.group_v2("kubepods/pod2/cri-twice.scope")
    assert sample_of(host).limit_bytes == gib(2)
    assert find_memory_group(host.proc, host.cgroup, 42) is None
    assert find_memory_group(host.proc, host.cgroup, 43) is None


def test_a_configured_directory_tells_its_version_by_its_files(host: FakeHost) -> None:
    assert memory_group_at(host.group_v1("a", memory_limit_in_bytes=SENTINEL)).version == 1
    assert memory_group_at(host.group_v2("a", memory_max=5)).version == 2


def test_a_group_that_may_not_be_entered_is_not_visible(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.process(41, "VLLM::EngineCore", group="0::/pod")

    def refuse(_path: Path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert find_memory_group(host.proc, host.cgroup, 41) is None


def test_a_process_that_is_gone_has_no_group(host: FakeHost) -> None:
    assert find_memory_group(host.proc, host.cgroup, 999) is None


def test_the_processes_of_a_group_are_listed_and_foreign_ones_are_zero(host: FakeHost) -> None:
    directory = host.group_v2("pod", cgroup_procs="0\n41\n0")
    assert group_processes(memory_group_at(directory)) == (0, 41, 0)
    assert group_processes(memory_group_at(host.group_v2("empty"))) == ()


def test_this_machine_has_memory_to_tell_of() -> None:
    group = find_memory_group(Path("/proc"), Path("/sys/fs/cgroup"), "self")
    if group is None:
        pytest.skip("no memory group is visible on this machine")
    sample = read_memory_group(group)
    assert sample.current_bytes is None or sample.current_bytes > 0
    assert sample.limit_bytes is None or sample.limit_bytes > 0
