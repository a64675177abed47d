"""All processes of a host, kept from round to round. In: a proc root, again and again. Out: for each pid its
identity, parent and, where it may matter, its command line. Why: a host has thousands of processes and few of
them are vLLM's; reading every one each round costs a hundred milliseconds, knowing them costs three.

A pid is examined when it is new. Known ones are looked at again for two reasons, a bounded number each round:
the inode of their directory changed (the pid may have been reused, or the kernel's cache was emptied), or it
is their turn (a shell may become a server by exec). The young are looked at each round: a fresh child gets
its title late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.sources.procfs import (
    CLOCK_TICKS_PER_SECOND,
    KERNEL_THREAD_FLAG,
    boot_time_seconds,
    list_processes,
    own_pid,
    read_command_line,
    read_stat,
)
from agent.sources.titles import Title, parse_title

YOUNG_SECONDS = 120.0
LOOKS_PER_ROUND = 32
YOUNG_LOOKS_PER_ROUND = 64

NAMELESS = Title("unknown", "other")

Relevant = Callable[[Title, Sequence[str]], bool]
"""Says by title and command line whether a process is a server's in its own right, not only by its parent."""


@dataclass(slots=True)
class KnownProcess:
    """One process. `command_line` is kept for relevant processes alone; a host's other command lines are not
    our business.
    """

    pid: int
    inode: int
    start_ticks: int = -1
    started_seconds: float | None = None
    parent_pid: int = 0
    comm: str = ""
    title: Title = NAMELESS
    command_line: tuple[str, ...] = ()
    relevant: bool = False
    readable: bool = True

    @property
    def identity(self) -> tuple[int, int]:
        """(pid, start in ticks since boot): a pid alone names different processes over time."""
        return (self.pid, self.start_ticks)


class ProcessTable:
    """The processes under one proc root. `update` once a round; `processes` is what is known then."""

    def __init__(self, proc_root: str, relevant: Relevant) -> None:
        self._proc_root = proc_root
        self._own_pid = own_pid(proc_root)
        self._relevant = relevant
        # Read once, so that a clock that is set does not make new processes of old ones.
        self._boot_time_seconds = boot_time_seconds(proc_root)
        self._turn: list[int] = []
        self.processes: dict[int, KnownProcess] = {}

    def update(self, t: float) -> None:
        """Brings the table up to date at `t` (unix seconds). Raises OSError when the proc root cannot be
        listed.
        """
        visible = list_processes(self._proc_root)
        if self._own_pid is not None:
            visible.pop(self._own_pid, None)  # our own command line may hold the patterns that we look for
        for pid in self.processes.keys() - visible.keys():
            del self.processes[pid]
        doubtful: list[int] = []
        young: list[int] = []
        young_since = t - YOUNG_SECONDS
        for pid, inode in visible.items():
            known = self.processes.get(pid)
            if known is None:
                self._examine(pid, inode)
            elif known.started_seconds is not None and known.started_seconds > young_since:
                young.append(pid)
            elif known.inode != inode:
                doubtful.append(pid)
        looks = doubtful[:LOOKS_PER_ROUND]
        newest = young[-YOUNG_LOOKS_PER_ROUND:]  # listed in the order of pids, which count up
        for pid in [*newest, *looks, *self._next_in_turn(LOOKS_PER_ROUND - len(looks))]:
            if pid in visible:
                self._examine(pid, visible[pid])

    def _next_in_turn(self, count: int) -> list[int]:
        if not self._turn:
            self._turn = [process.pid for process in self.processes.values() if process.parent_pid != 2]
        chosen, self._turn = self._turn[:count], self._turn[count:]
        return chosen

    def _examine(self, pid: int, inode: int) -> None:
        process = KnownProcess(pid, inode)
        command_line: tuple[str, ...] = ()
        try:
            stat = read_stat(self._proc_root, pid)
            process.start_ticks = stat.start_ticks
            process.parent_pid = stat.parent_pid
            process.comm = stat.comm
            if self._boot_time_seconds is not None:
                process.started_seconds = self._boot_time_seconds + stat.start_ticks / CLOCK_TICKS_PER_SECOND
            if stat.flags & KERNEL_THREAD_FLAG:
                self.processes[pid] = process
                return
            command_line = read_command_line(self._proc_root, pid)
        except (FileNotFoundError, ProcessLookupError):
            self.processes.pop(pid, None)
            return
        except OSError:
            # Listed, and closed to us: hidepid=1, or a container's security profile.
            process.readable = process.start_ticks >= 0
        process.title = parse_title(command_line, process.comm)
        process.relevant = process.readable and self._relevant(process.title, command_line)
        if process.relevant:
            process.command_line = command_line
        self.processes[pid] = process
