"""The memory of a server's processes. In: a server and a moment. Out: process readings as a source would bring them.

Each process starts small, warms up to its size, wobbles a little around it, and grows further only by a leak. The
numbers are a function of the moment alone: reading them changes nothing, and reading them twice gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from agent.demo.server import Server
from agent.model import CgroupSample, ProcessesObservation, ProcessKind, ProcessSample

GIB = 1 << 30
MIB = 1 << 20
PAGE_BYTES = 4096
WARM_UP_SECONDS = 900.0
"""Time constant of the growth after start."""
WARM_UP_SHARE = 0.06


class Size(NamedTuple):
    """Anonymous, file and shared memory of a process, warmed up."""

    anon_bytes: float
    file_bytes: float
    shmem_bytes: float
    threads: int


SIZES: dict[ProcessKind, Size] = {
    "launcher": Size(0.9 * GIB, 0.4 * GIB, 0.0, 24),
    "coordinator": Size(0.4 * GIB, 0.3 * GIB, 0.0, 6),
    "engine_core": Size(5.5 * GIB, 0.5 * GIB, 0.1 * GIB, 40),
    "worker": Size(13.0 * GIB, 1.2 * GIB, 0.6 * GIB, 180),
    "api_server": Size(2.2 * GIB, 0.4 * GIB, 0.0, 90),
}


class Process(NamedTuple):
    """One process of a server, by its place in the tree."""

    title: str
    kind: ProcessKind
    engine: str | None
    pid: int
    parent: int | None


def processes(server: Server, t: float) -> ProcessesObservation:
    """All processes of a server at `t`, its container with them; none while it is down."""
    if not server.up:
        return ProcessesObservation(t, server.name, ())
    samples = tuple(_sample(server, process, t) for process in tree(server))
    anon = sum(sample.anon_bytes or 0 for sample in samples)
    file = sum(sample.file_bytes or 0 for sample in samples)
    shmem = sum(sample.shmem_bytes or 0 for sample in samples)
    cgroup = CgroupSample(
        limit_bytes=limit_bytes(server),
        current_bytes=anon + file + shmem,
        anon_bytes=anon,
        file_bytes=file,
        shmem_bytes=shmem,
        kernel_bytes=2 * GIB,
        oom_kills=0,
        host_available_bytes=900 * GIB,
    )
    return ProcessesObservation(t, server.name, samples, cgroup)


def tree(server: Server) -> Iterator[Process]:
    """The processes of a data-parallel server: launcher, coordinator, engine cores, API servers, workers."""
    engines = server.pool.engines
    root = server.first_pid + 200 * (server.lives % 10)
    yield Process("vllm serve", "launcher", None, root, 1)
    yield Process("VLLM::DPCoordinator", "coordinator", None, root + 1, root)
    for rank in range(engines):
        yield Process(f"VLLM::EngineCore_DP{rank}", "engine_core", str(rank), root + 10 + rank, root)
    if server.pool.multiprocess:
        for rank in range(engines):
            yield Process(f"VLLM::APIServer_{rank}", "api_server", None, root + 50 + rank, root)
    for rank in range(engines):
        title = f"VLLM::Worker_DP{rank}_EP{rank}"
        yield Process(title, "worker", str(rank), root + 100 + rank, root + 10 + rank)


def limit_bytes(server: Server) -> int:
    """The container's limit: twice what the processes hold, in steps of 16 GiB."""
    anon = sum(SIZES[process.kind].anon_bytes for process in tree(server))
    return math.ceil(2.0 * anon / (16 * GIB)) * 16 * GIB


def frontend_rss_bytes(server: Server, t: float) -> int:
    """Resident memory of the process that serves a single-process page, which is the launcher."""
    size = SIZES["launcher"]
    return _whole_pages(_anon_bytes(server, next(tree(server)), t) + size.file_bytes)


def _sample(server: Server, process: Process, t: float) -> ProcessSample:
    size = SIZES[process.kind]
    anon = _whole_pages(_anon_bytes(server, process, t))
    file, shmem = _whole_pages(size.file_bytes), _whole_pages(size.shmem_bytes * _warmth(t - server.started))
    return ProcessSample(
        pid=process.pid,
        title=process.title,
        started_seconds=round(server.started + 0.01 * (process.pid % 200), 2),
        parent_pid=process.parent,
        kind=process.kind,
        engine=process.engine,
        rss_bytes=anon + file + shmem,
        anon_bytes=anon,
        swap_bytes=0,
        file_bytes=file,
        shmem_bytes=shmem,
        hugetlb_bytes=0,
        threads=size.threads,
    )


def _anon_bytes(server: Server, process: Process, t: float) -> float:
    size, started = SIZES[process.kind], server.started
    grown = sum(
        leak.grown_bytes(t, started)
        for leak in server.conditions.leaks
        if leak.target == server.name and leak.title == process.title
    )
    # arenas that breathe with the load: two slow waves of unrelated lengths and a little that is different every time
    phase = process.pid * 0.7
    wobble = 6 * MIB * math.sin(t / 431.0 + phase) + 4 * MIB * math.sin(t / 1733.0 + 2 * phase)
    flutter = 3 * MIB * _chance(t, process.pid)
    return size.anon_bytes * _warmth(t - started) + wobble + flutter + grown


def _warmth(age: float) -> float:
    return 1.0 - WARM_UP_SHARE * math.exp(-max(0.0, age) / WARM_UP_SECONDS)


def _chance(t: float, pid: int) -> float:
    """A number in [0, 1) that looks random and depends on nothing but its arguments."""
    return math.sin(t * 12.9898 + pid * 78.233) * 43758.5453 % 1.0


def _whole_pages(size: float) -> int:
    return int(size) // PAGE_BYTES * PAGE_BYTES
