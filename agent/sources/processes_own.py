"""pdwatch's own memory, read as any other process is. In: the proc root. Out: one sample, for the watch on itself."""

from __future__ import annotations

from pathlib import Path

import psutil

from agent.model import ProcessSample
from agent.sources.processes import descriptors, psutil_root
from agent.sources.procfs import own_pid, read_status


def own_process(proc_root: Path = Path("/proc")) -> ProcessSample | None:
    """Our own memory, found by the self link: our pid elsewhere names another process. None where we are not
    visible.
    """
    pid = own_pid(str(proc_root))
    if pid is None:
        return None
    try:
        with psutil_root(str(proc_root)):
            handle = psutil.Process(pid)
            started_seconds, fds = handle.create_time(), descriptors(handle)
        status = read_status(str(proc_root), pid)
    except (psutil.Error, OSError):
        return None
    return ProcessSample(
        pid=pid,
        title="agent",
        started_seconds=started_seconds,
        parent_pid=status.parent_pid,
        rss_bytes=status.rss_bytes,
        anon_bytes=status.anon_bytes,
        swap_bytes=status.swap_bytes,
        file_bytes=status.file_bytes,
        shmem_bytes=status.shmem_bytes,
        hugetlb_bytes=status.hugetlb_bytes,
        threads=status.threads,
        fds=fds,
    )
