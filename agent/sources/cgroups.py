"""The memory control group around a server. In: a proc root and a cgroup root. Out: a `CgroupSample` of the
level that will kill first. Why: a process dies when any group above it is full, and page cache fills a group
without harm.

What counts as use is what the kernel cannot take back: anon + shmem + unreclaimable kernel memory. The raw
`memory.current` contains page cache (weights read from disk fill it to the limit for ever), and so does
"current minus inactive_file": both are only context. Version 1 and version 2 hierarchies, nested limits, the
version 1 sentinel and version 2 `max`; limits are read anew each time, because they are changed under running
containers. Kernel documentation: admin-guide/cgroup-v2.rst "memory", admin-guide/cgroup-v1/memory.rst.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from agent.model import CgroupSample
from agent.sources.procfs import read_file

NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes "no limit" as the largest multiple of the page size below 2**63; nothing real comes near
2**60.
"""

OUTSIDE_SEARCH_DEPTH = 5
"""How many levels down a group is searched for that lies outside our own cgroup namespace."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """Where a process's memory is accounted: the directories from its own group up to the mounted root."""

    version: Literal[1, 2]
    levels: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Usage:
    current_bytes: int | None
    anon_bytes: int | None
    file_bytes: int | None
    shmem_bytes: int | None
    kernel_bytes: int | None

    def unreclaimable_bytes(self) -> int | None:
        if self.anon_bytes is None:
            return self.current_bytes
        return self.anon_bytes + (self.shmem_bytes or 0) + (self.kernel_bytes or 0)


def unreclaimable_bytes(sample: CgroupSample) -> int | None:
    """The memory that the kernel cannot take back: anon + shmem + kernel, as far as each is known.

    With an over-estimate (the split into kinds was unreadable) it is the raw use, page cache included.
    """
    return _Usage(
        sample.current_bytes, sample.anon_bytes, sample.file_bytes, sample.shmem_bytes, sample.kernel_bytes
    ).unreclaimable_bytes()


def find_memory_group(proc_root: Path, cgroup_root: Path, pid: int | Literal["self"]) -> MemoryGroup | None:
    """The memory group of a process, or None when it is not visible below `cgroup_root` (never a guess)."""
    path = memory_path(proc_root, pid)
    if path is None:
        return None
    try:
        return _locate(cgroup_root, path, is_ours=path == memory_path(proc_root, "self"))
    except OSError:
        return None  # a directory on the way may not be entered


def memory_group_at(directory: Path) -> MemoryGroup:
    """The group of a directory that the configuration names; limits above it are not known."""
    is_version_1 = _read_integer(directory / "memory.limit_in_bytes") is not None
    return MemoryGroup(1 if is_version_1 else 2, (directory,))


def group_processes(group: MemoryGroup) -> tuple[int, ...]:
    """The pids in the group itself; 0 is a process of another PID namespace. Empty when unreadable."""
    try:
        content = read_file(str(group.levels[0] / "cgroup.procs"))
    except OSError:
        return ()
    return tuple(int(word) for word in content.split() if word.isdigit())


def read_memory_group(group: MemoryGroup, host_available_bytes: int | None = None) -> CgroupSample:
    """The group at this moment: limit and use of the level with the least room left (its own when none has a
    limit).

    `oom_kills` are those of the process's own group, at whatever level memory ran out. What cannot be read is
    None; `over_estimate` is set where the use is known but not its kinds.
    """
    own = group.levels[0]
    tightest: tuple[int, int, _Usage] | None = None  # room, limit, usage
    own_usage = _read_usage(own, group.version)
    for level in group.levels:
        limit = _read_limit(level, group.version)
        if limit is None:
            continue
        usage = own_usage if level == own else _read_usage(level, group.version)
        used = usage.unreclaimable_bytes()
        room = limit - (used if used is not None else own_usage.unreclaimable_bytes() or 0)
        if tightest is None or room < tightest[0]:
            tightest = (room, limit, usage if used is not None else own_usage)
    limit_bytes, usage = (tightest[1], tightest[2]) if tightest else (None, own_usage)
    return CgroupSample(
        limit_bytes=limit_bytes,
        current_bytes=usage.current_bytes,
        anon_bytes=usage.anon_bytes,
        file_bytes=usage.file_bytes,
        shmem_bytes=usage.shmem_bytes,
        kernel_bytes=usage.kernel_bytes,
        oom_kills=_read_oom_kills(own, group.version),
        host_available_bytes=host_available_bytes,
        over_estimate=usage.anon_bytes is None and usage.current_bytes is not None,
    )


def memory_path(proc_root: Path, pid: int | Literal["self"]) -> tuple[Literal[1, 2], str] | None:
    """(version, path) of a process by `/proc/PID/cgroup`. In a mixed hierarchy memory belongs to version 1 if
    listed there.
    """
    try:
        content = read_file(f"{proc_root}/{pid}/cgroup").decode("utf-8", "replace")
    except OSError:
        return None
    unified: str | None = None
    for line in content.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return 1, path
        if hierarchy == "0" and not controllers:
            unified = path
    return None if unified is None else (2, unified)


def _locate(cgroup_root: Path, path: tuple[Literal[1, 2], str], *, is_ours: bool) -> MemoryGroup | None:
    version, relative = path
    mount = cgroup_root / "memory" if version == 1 else cgroup_root
    if version == 2 and not (mount / "cgroup.controllers").exists() and (mount / "unified").is_dir():
        mount = mount / "unified"
    directory = _resolve(mount, relative)
    if directory is None and is_ours:
        # Same group as ours, mounted without its path: what a container sees as the root is its own group.
        directory = mount
    if directory is None or not directory.is_dir():
        return None
    levels = [directory]
    while levels[-1] != mount:
        levels.append(levels[-1].parent)
    return MemoryGroup(version, tuple(levels))


def _resolve(mount: Path, path: str) -> Path | None:
    """The directory of a group below the mount; a path that leads out of our namespace is searched by its
    last part.
    """
    parts = PurePosixPath(path).parts
    if ".." not in parts:
        directory = mount / path.lstrip("/")
        return directory if directory.is_dir() else None
    tail = "/".join(parts[len(parts) - parts[::-1].index("..") :])
    if not tail:
        return None
    for depth in range(OUTSIDE_SEARCH_DEPTH + 1):
        found = [entry for entry in mount.glob("*/" * depth + glob.escape(tail)) if entry.is_dir()]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _read_limit(level: Path, version: int) -> int | None:
    limit = _read_integer(level / ("memory.limit_in_bytes" if version == 1 else "memory.max"))
    return None if limit is None or limit >= NO_LIMIT_BYTES else limit


def _read_usage(level: Path, version: int) -> _Usage:
    stat = _read_table(level / "memory.stat")
    if version == 1:
        # The plain names count this group alone, the total_ ones its children too, as limit and usage do.
        return _Usage(
            current_bytes=_read_integer(level / "memory.usage_in_bytes"),
            anon_bytes=stat.get("total_rss", stat.get("rss")),
            file_bytes=stat.get("total_cache", stat.get("cache")),
            shmem_bytes=stat.get("total_shmem", stat.get("shmem")),
            kernel_bytes=_read_integer(level / "memory.kmem.usage_in_bytes"),
        )
    return _Usage(
        current_bytes=_read_integer(level / "memory.current"),
        anon_bytes=stat.get("anon"),
        file_bytes=stat.get("file"),
        shmem_bytes=stat.get("shmem"),
        kernel_bytes=_kernel_bytes(stat),
    )


def _kernel_bytes(stat: dict[str, int]) -> int | None:
    """Kernel memory of a version 2 group without the slabs that it gives back by itself (dentries, inodes).

    `kernel` exists since Linux 5.18; before, its parts are added. Socket buffers are counted apart by the
    kernel.
    """
    sockets = stat.get("sock", 0)
    if "kernel" in stat:
        return max(0, stat["kernel"] - stat.get("slab_reclaimable", 0)) + sockets
    parts = [stat[name] for name in ("kernel_stack", "pagetables", "percpu", "slab_unreclaimable") if name in stat]
    return sum(parts) + sockets if parts else None


def _read_oom_kills(level: Path, version: int) -> int | None:
    return _read_table(level / ("memory.oom_control" if version == 1 else "memory.events")).get("oom_kill")


def _read_integer(path: Path) -> int | None:
    """A file of one number; None when it is unreadable or says something else, such as `max`."""
    try:
        return int(read_file(str(path)))
    except (OSError, ValueError):
        return None


def _read_table(path: Path) -> dict[str, int]:
    """A file of `name number` lines; empty when unreadable, lines of another form left out."""
    try:
        content = read_file(str(path)).decode("ascii", "replace")
    except OSError:
        return {}
    table: dict[str, int] = {}
    for line in content.splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            table[name] = int(value)
    return table
