"""The memory group that belongs to a target. In: its server's pid, or none when no process is visible. Out: a
`CgroupSample`. Why: where processes are hidden from us their container's memory may still be seen, and must
not be confused with our own.

The last wall is the host's available memory: it is in every sample, also where no group is visible.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from agent.model import CgroupSample
from agent.sources.cgroups import (
    MemoryGroup,
    find_memory_group,
    group_processes,
    memory_group_at,
    memory_path,
    read_memory_group,
)
from agent.sources.procfs import host_available_bytes, own_pid


class ContainerMemory:
    """Finds and reads memory groups. A process's group is looked up each round by its path, which is cheap;
    only what a path resolves to is kept.
    """

    def __init__(self, proc_root: str, cgroup_root: Path) -> None:
        self._proc_root = Path(proc_root)
        self._cgroup_root = cgroup_root
        self._groups: dict[tuple[int, str], MemoryGroup | None] = {}
        self._used: set[tuple[int, str]] = set()
        self._available_bytes: int | None = None

    def begin_round(self) -> None:
        """Reads the host's available memory, and forgets the groups that the last round did not ask for."""
        self._available_bytes = host_available_bytes(str(self._proc_root))
        self._groups = {path: group for path, group in self._groups.items() if path in self._used}
        self._used = set()

    def of_process(self, pid: int, configured: str | None) -> CgroupSample | None:
        """The memory of a process's group, else of the configured directory, else the host's wall alone."""
        path = memory_path(self._proc_root, pid)
        if path is None:
            return self._read(_configured(configured))
        if path not in self._groups:
            self._groups[path] = find_memory_group(self._proc_root, self._cgroup_root, pid)
        self._used.add(path)
        return self._read(self._groups[path] or _configured(configured))

    def without_process(
        self, configured: str | None, visible: Container[int] | None
    ) -> tuple[CgroupSample | None, bool]:
        """For a target whose processes are not visible: a sample, and whether it holds the container's
        memory.

        `visible`: all pids that are visible; then our own container's group may stand in, if it holds
        processes beside those. None forbids that (several targets: it would be unclear whose memory it is).
        """
        group = _configured(configured)
        if group is None and visible is not None:
            group = self._shared(visible)
        return self._read(group), group is not None

    def _shared(self, visible: Container[int]) -> MemoryGroup | None:
        group = find_memory_group(self._proc_root, self._cgroup_root, "self")
        if group is None:
            return None
        own = own_pid(str(self._proc_root))
        # 0 is a process of another PID namespace, and a pid that the listing lacks is hidden from us.
        others = (pid for pid in group_processes(group) if pid != own)
        return group if any(pid == 0 or pid not in visible for pid in others) else None

    def _read(self, group: MemoryGroup | None) -> CgroupSample | None:
        if group is not None:
            return read_memory_group(group, self._available_bytes)
        available = self._available_bytes
        return None if available is None else CgroupSample(host_available_bytes=available)


def _configured(directory: str | None) -> MemoryGroup | None:
    return memory_group_at(Path(directory)) if directory else None
