"""The kernel's own words about processes. In: a proc root (`/proc`, or a host's mounted elsewhere). Out:
typed values of `stat`, `status`, `cmdline`, `meminfo` and the list of processes. Why: these files are
readable without privilege and say what psutil leaves out (RssAnon, VmSwap, HugetlbPages); and the root is an
argument, so that tests bring their own tree.

Reading functions raise OSError (gone, not allowed) and nothing else; a value that a file does not hold is
None.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
KERNEL_THREAD_FLAG = 0x00200000  # PF_KTHREAD in the kernel's sched.h: such a process has no memory of its own
READ_LIMIT_BYTES = 1 << 20  # a command line may be long; nothing here is longer


_STATUS_LINE = re.compile(
    rb"^(State|PPid|Threads|VmRSS|RssAnon|RssFile|RssShmem|VmSwap|HugetlbPages):(.*)$", re.MULTILINE
)


class ProcessStat(NamedTuple):
    """Of `/proc/PID/stat`: what identifies a process and where it hangs in the tree. `start_ticks` counts
    from boot.
    """

    pid: int
    comm: str
    state: str
    parent_pid: int
    flags: int
    threads: int
    start_ticks: int


class ProcessStatus(NamedTuple):
    """Of `/proc/PID/status`: memory in bytes. All of it is None for a process that is dying or dead: not
    zero.
    """

    state: str | None
    parent_pid: int | None
    threads: int | None
    rss_bytes: int | None
    anon_bytes: int | None
    file_bytes: int | None
    shmem_bytes: int | None
    swap_bytes: int | None
    hugetlb_bytes: int | None


def read_file(path: str) -> bytes:
    """The content of a kernel file, at most READ_LIMIT_BYTES. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunk = os.read(descriptor, 65536)
        content = chunk
        while chunk and len(content) < READ_LIMIT_BYTES:
            chunk = os.read(descriptor, 65536)
            content += chunk
        return content
    finally:
        os.close(descriptor)


def parse_stat(content: bytes) -> ProcessStat:
    """Takes `stat` apart. The name may hold blanks and parentheses itself. Raises ValueError."""
    before, opening, rest = content.partition(b"(")
    comm, closing, after = rest.rpartition(b")")
    fields = after.split()
    if not opening or not closing or len(fields) < 20:
        raise ValueError(f"not a stat line: {content[:60]!r}")
    # After the name: state is field 3 of proc(5), ppid 4, flags 9, num_threads 20, starttime 22.
    return ProcessStat(
        pid=int(before),
        comm=comm.decode("utf-8", "replace"),
        state=fields[0].decode("ascii", "replace"),
        parent_pid=int(fields[1]),
        flags=int(fields[6]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def parse_status(content: bytes) -> ProcessStatus:
    """Takes `status` apart. Unknown, missing or malformed lines give None for their value, never 0."""
    lines = dict(_STATUS_LINE.findall(content))
    state = lines.get(b"State", b"").split()
    return ProcessStatus(
        state=state[0].decode("ascii", "replace") if state else None,
        parent_pid=_integer(lines.get(b"PPid")),
        threads=_integer(lines.get(b"Threads")),
        rss_bytes=_kibibytes(lines.get(b"VmRSS")),
        anon_bytes=_kibibytes(lines.get(b"RssAnon")),
        file_bytes=_kibibytes(lines.get(b"RssFile")),
        shmem_bytes=_kibibytes(lines.get(b"RssShmem")),
        swap_bytes=_kibibytes(lines.get(b"VmSwap")),
        hugetlb_bytes=_kibibytes(lines.get(b"HugetlbPages")),
    )


def split_command_line(content: bytes) -> tuple[str, ...]:
    """The arguments of `cmdline`, without the padding that a process leaves behind its own title."""
    arguments = content.rstrip(b"\0 ")
    return tuple(part.decode("utf-8", "replace") for part in arguments.split(b"\0")) if arguments else ()


def read_stat(proc_root: str, pid: int) -> ProcessStat:
    """`stat` of one process. Raises OSError; ProcessLookupError for a file cut short by the process dying."""
    try:
        return parse_stat(read_file(f"{proc_root}/{pid}/stat"))
    except ValueError as error:
        raise ProcessLookupError(f"{proc_root}/{pid}/stat: {error}") from error


def read_status(proc_root: str, pid: int) -> ProcessStatus:
    """`status` of one process. Raises OSError."""
    return parse_status(read_file(f"{proc_root}/{pid}/status"))


def read_command_line(proc_root: str, pid: int) -> tuple[str, ...]:
    """The arguments of one process; empty for kernel threads and zombies. Raises OSError."""
    return split_command_line(read_file(f"{proc_root}/{pid}/cmdline"))


def list_processes(proc_root: str) -> dict[int, int]:
    """Every visible pid with the inode number of its directory. Raises OSError.

    The inode comes with the listing for nothing and belongs to one life of a pid: the same pid and inode is
    the same process. A new inode means a new process *or* that the kernel dropped the old one from its cache.
    """
    with os.scandir(proc_root) as entries:
        return {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}


def own_pid(proc_root: str) -> int | None:
    """Our own pid as this root numbers it, or None where we do not exist in it (another PID namespace)."""
    try:
        name = Path(proc_root, "self").readlink().name
    except OSError:
        return None
    return int(name) if name.isdigit() else None


def boot_time_seconds(proc_root: str) -> float | None:
    """When the host started, unix seconds. It moves when the clock is set: read it once and keep it."""
    try:
        content = read_file(f"{proc_root}/stat")
    except OSError:
        return None
    for line in content.splitlines():
        if line.startswith(b"btime "):
            return float(_integer(line[6:]) or 0) or None
    return None


def host_available_bytes(proc_root: str) -> int | None:
    """MemAvailable of `meminfo`: what the host can still give without swapping. None when unreadable."""
    try:
        content = read_file(f"{proc_root}/meminfo")
    except OSError:
        return None
    for line in content.splitlines():
        if line.startswith(b"MemAvailable:"):
            return _kibibytes(line.partition(b":")[2])
    return None


def hidepid_option(proc_root: str) -> str | None:
    """The `hidepid=` option of this proc mount ("1", "2", "invisible", ...) if it hides other users'
    processes.
    """
    try:
        mounts = read_file(f"{proc_root}/self/mounts").decode("utf-8", "replace")
    except OSError:
        return None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[2] == "proc" and fields[1] == proc_root:
            for option in fields[3].split(","):
                name, _, value = option.partition("=")
                if name == "hidepid" and value not in ("0", "off"):
                    return value
    return None


def _integer(value: bytes | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def _kibibytes(value: bytes | None) -> int | None:
    """`   123 kB` in bytes; the kernel's kB are 1024 bytes. Another unit or a negative number is not
    understood.
    """
    if value is None:
        return None
    fields = value.split()
    if len(fields) != 2 or fields[1] != b"kB":
        return None
    number = _integer(fields[0])
    return None if number is None or number < 0 else number * 1024
