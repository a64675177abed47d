"""A fake host for the tests of the process sources: a proc root and a cgroup root in a directory, written file by file.

Numbers are invented. Fake processes are as complete as psutil needs them to be.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

BOOTED = 1_700_000_000
TICKS = 100
MIB = 1 << 20


class FakeHost:
    """Writes processes and groups below one directory; what is not written does not exist."""

    def __init__(self, directory: Path) -> None:
        self.proc = directory / "proc"
        self.cgroup = directory / "cgroup"
        self.proc.mkdir()
        self.cgroup.mkdir()
        (self.proc / "stat").write_text(f"cpu  1 2 3\nbtime {BOOTED}\n")
        self.available(64 << 30)

    def available(self, size_bytes: int) -> None:
        (self.proc / "meminfo").write_text(
            f"MemTotal:       {size_bytes >> 9} kB\nMemAvailable:   {size_bytes >> 10} kB\n"
        )

    def process(
        self,
        pid: int,
        command: Sequence[str] | str = (),
        *,
        parent: int = 1,
        comm: str | None = None,
        started: float = 1000.0,
        state: str = "S",
        anon_mib: int | None = 100,
        shmem_mib: int = 10,
        swap_mib: int = 0,
        fds: int | None = 3,
        group: str = "0::/",
        flags: int = 0x400000,
    ) -> Path:
        """One process; `started` in seconds after boot, no memory lines without `anon_mib`, no `fd` without `fds`."""
        words = [command] if isinstance(command, str) else list(command)
        name = comm if comm is not None else (Path(words[0]).name if words else "?")[:15]
        directory = self.proc / str(pid)
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir()
        after = [state, parent, pid, pid, 0, -1, flags, *[0] * 10, 7, 0, int(started * TICKS), *[0] * 30]
        (directory / "stat").write_text(f"{pid} ({name}) {' '.join(str(field) for field in after)}\n")
        (directory / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        memory = ""
        if anon_mib is not None:
            sizes = {
                "VmRSS": anon_mib + shmem_mib + 20,
                "RssAnon": anon_mib,
                "RssFile": 20,
                "RssShmem": shmem_mib,
                "VmSwap": swap_mib,
                "HugetlbPages": 2,
            }
            memory = "".join(f"{key}:\t{mib * 1024:8d} kB\n" for key, mib in sizes.items())
        (directory / "status").write_text(
            f"Name:\t{name}\nState:\t{state} (something)\nPid:\t{pid}\nPPid:\t{parent}\n{memory}Threads:\t7\n"
        )
        (directory / "cgroup").write_text(group + "\n")
        if fds is not None:
            (directory / "fd").mkdir()
            for number in range(fds):
                (directory / "fd" / str(number)).symlink_to("/dev/null")
        return directory

    def listen(self, pid: int, *ports: int) -> None:
        """Gives a process listening sockets, in the form of its network namespace's table."""
        directory = self.proc / str(pid)
        (directory / "net").mkdir(exist_ok=True)
        lines = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]
        for number, port in enumerate(ports):
            inode = pid * 1000 + number
            lines.append(
                f"   {number}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000"
                f"     0        0 {inode} 1"
            )
            (directory / "fd" / str(100 + number)).symlink_to(f"socket:[{inode}]")
        (directory / "net" / "tcp").write_text("\n".join(lines) + "\n")

    def remove(self, *pids: int) -> None:
        for pid in pids:
            shutil.rmtree(self.proc / str(pid))

    def we_are(self, pid: int, group: str | None = None) -> None:
        """Points the self link at a pid; `group` gives that pid a directory with a cgroup file."""
        (self.proc / "self").symlink_to(str(pid))
        if group is not None:
            self.process(pid, ["pdwatch", "run"], group=group)

    def group_v2(self, path: str = "", **files: object) -> Path:
        """A version 2 group; the names of files are written with `_` for the first dot: memory_max="max"."""
        (self.cgroup / "cgroup.controllers").write_text("memory\n")
        return _write(self.cgroup / path.lstrip("/"), files)

    def group_v1(self, path: str = "", **files: object) -> Path:
        """A version 1 group of the memory controller."""
        return _write(self.cgroup / "memory" / path.lstrip("/"), files)


def _write(directory: Path, files: dict[str, object]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("_", ".", 1)).write_text(f"{content}\n")
    return directory


def stat_lines(**values: int) -> str:
    """The text of a memory.stat."""
    return "\n".join(f"{name} {value}" for name, value in values.items())
