"""The processes behind each target, and the memory they hold. In: a proc root, a cgroup root, what is
configured about the targets. Out: one `ProcessesObservation` per target and round. Why: a leak in an engine
core or a worker is on no metrics page.

psutil gives identity (pid and start time), command line and descriptors; `/proc/PID/status` beside it gives
RssAnon, VmSwap and HugetlbPages, which psutil leaves out. Everything here is readable without privilege,
except descriptors. What cannot be read is None or a problem, never 0. How each of psutil's failures ends is
in docs/processes.md.

The reader blocks: run it in a thread. It keeps no file open and starts nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from agent.errors import ConfigError
from agent.model import ProcessesObservation, ProcessSample, SourceProblem
from agent.sources.cache_budgets import CacheBudget, cache_budgets, growth_budget_bytes, read_environment
from agent.sources.containers import ContainerMemory
from agent.sources.ports import has_option, listening_ports
from agent.sources.process_table import KnownProcess, ProcessTable
from agent.sources.procfs import (
    hidepid_option,
    read_stat,
    read_status,
)
from agent.sources.servers import TITLED, Server, TargetHint, find_servers, is_relevant, match_servers
from agent.sources.titles import Title, engine_of, parse_title

__all__ = ["ProcessReader", "TargetHint"]

_PSUTIL_ROOT_LOCK = threading.Lock()


@contextmanager
def psutil_root(proc_root: str) -> Iterator[None]:
    """Lets psutil read another proc root. Its root is one global of the module: changed under a lock and put
    back.
    """
    with _PSUTIL_ROOT_LOCK:
        before = psutil.PROCFS_PATH
        psutil.PROCFS_PATH = proc_root
        try:
            yield
        finally:
            psutil.PROCFS_PATH = before


STOPPED_STATE = "T"
"""As /proc says it of a process that SIGSTOP holds."""


class _Unreadable(Exception):
    """A process that is there and may not be read."""


class _Dead(Exception):
    """A process that has ended, with the words for it."""


class _Tree:
    """The titles of one server's processes while they are read, and who is above whom."""

    def __init__(self, server: Server) -> None:
        self._root = server.root
        self._headless = has_option(server.root.command_line, "headless")
        self._parents = {member.pid: member.parent_pid for member in server.members}
        self.titles = {member.pid: member.title for member in server.members}
        self.stopped: list[KnownProcess] = []

    def retitle(self, member: KnownProcess, title: Title) -> Title:
        """Notes a title as just read (start-up and exec change it) and returns it with the kind it has in
        this tree.
        """
        if member.pid == self._root.pid and title.kind == "other":
            title = title._replace(kind="launcher")  # of somebody's own, above titled processes
        elif member.pid == self._root.pid and title.kind == "launcher" and not self._headless:
            # A plain server's launcher answers the requests itself, unless others are there to do so.
            others = any(other.kind == "api_server" for pid, other in self.titles.items() if pid != member.pid)
            title = title if others else title._replace(kind="api_server")
        self.titles[member.pid] = title
        return title

    def above(self, member: KnownProcess) -> list[Title]:
        """The titles above a process in its server, the nearest first."""
        above: list[Title] = []
        pid = member.parent_pid
        while pid in self._parents and len(above) < len(self._parents):
            above.append(self.titles[pid])
            pid = self._parents[pid]
        return above


class ProcessReader:
    """Reads the processes of all targets, round after round.

    `targets`: name of each target on this host -> what is known of its server. `proc_root` and `cgroup_root`
    may be the host's, mounted elsewhere. Raises ConfigError for a `command_pattern` that is not a regular
    expression.
    """

    def __init__(
        self,
        *,
        targets: Mapping[str, TargetHint],
        proc_root: Path = Path("/proc"),
        cgroup_root: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._targets = dict(targets)
        self._patterns = [_compiled(name, hint) for name, hint in targets.items() if hint.command_pattern]
        self._proc_root = str(proc_root)
        self._containers = ContainerMemory(self._proc_root, cgroup_root)
        self._table = ProcessTable(self._proc_root, self._is_relevant)
        self._handles: dict[tuple[int, int], psutil.Process] = {}
        self._ports: dict[tuple[int, ...], frozenset[int]] = {}
        self._assigned: dict[tuple[int, int], str] = {}
        self._living: dict[str, dict[tuple[int, int], Title]] = {}
        self._servers: dict[str, Server] = {}
        self._budgets: dict[tuple[int, int], list[CacheBudget]] = {}
        self._stopped_before: set[tuple[int, int]] = set()
        self._stopped_now: set[tuple[int, int]] = set()

    def read(self, t: float) -> list[ProcessesObservation]:
        """One round at `t` (unix seconds): an observation for every target, in their configured order. Never
        raises.
        """
        self._containers.begin_round()
        try:
            self._table.update(t)
        except OSError as error:
            text = f"{self._proc_root} cannot be listed ({error.strerror or error}); memory not observed"
            return [self._without_processes(t, name, text) for name in self._targets]
        self._stopped_before, self._stopped_now = self._stopped_now, set()
        servers = find_servers(self._table.processes)
        matches = match_servers(self._targets, servers, self._assigned, self._ports_of)
        self._assigned = {
            member.identity: target
            for target, match in matches.items()
            if not isinstance(match, str)
            for server in match
            for member in server.members
        }
        with psutil_root(self._proc_root):
            observations = [
                self._without_processes(t, name, match) if isinstance(match, str) else self._observe(t, name, match)
                for name, match in matches.items()
            ]
        self._forget()
        return observations

    def budgets(self, target: str) -> list[CacheBudget]:
        """The caches of a target's server by its command line, as last seen; empty while it is not found."""
        server = self._servers.get(target)
        return [] if server is None else self._budgets_of(server)

    def _budgets_of(self, server: Server) -> list[CacheBudget]:
        identity = server.root.identity
        if identity not in self._budgets:
            environment = read_environment(self._proc_root, server.root.pid)
            self._budgets[identity] = cache_budgets(server.supervisor or server.root.command_line, environment)
        return self._budgets[identity]

    def _is_relevant(self, title: Title, command_line: Sequence[str]) -> bool:
        if is_relevant(title):
            return True
        return any(pattern.search(" ".join(command_line)) for pattern in self._patterns)

    def _observe(self, t: float, target: str, servers: Sequence[Server]) -> ProcessesObservation:
        self._servers[target] = servers[0]
        samples: list[ProcessSample] = []
        unreadable: list[int] = []
        problems: list[SourceProblem] = []
        living: dict[tuple[int, int], Title] = {}
        for server in servers:
            tree = _Tree(server)
            for member in server.members:
                try:
                    sample = self._sample(member, tree)
                except _Dead as death:
                    problems += _gone(target, tree.titles[member.pid], member.pid, str(death))
                    continue
                except _Unreadable:
                    unreadable.append(member.pid)
                else:
                    samples.append(sample)
                living[member.identity] = tree.titles[member.pid]
            problems += self._stopped(target, tree)
        problems += self._vanished(target, living, {problem.pid for problem in problems})
        if unreadable:
            text = f"{len(unreadable)} of this server's processes may not be read; their memory is not observed"
            problems.append(SourceProblem("process_unreadable", target, text, unreadable[0]))
        self._living[target] = living
        samples.sort(key=lambda sample: sample.pid)
        budgets = self._budgets_of(servers[0])
        samples = [replace(sample, cache_budget_bytes=growth_budget_bytes(budgets, sample.kind)) for sample in samples]
        cgroup = self._containers.of_process(servers[0].root.pid, self._targets[target].cgroup)
        return ProcessesObservation(t, target, tuple(samples), cgroup, tuple(problems))

    def _stopped(self, target: str, tree: _Tree) -> list[SourceProblem]:
        """Engines and workers that a signal has stopped, in this round and the one before: a look in between by a
        profiler stops a process for a moment only.
        """
        problems = []
        for member in tree.stopped:
            title = tree.titles[member.pid]
            if title.kind in ("engine_core", "worker") and member.identity in self._stopped_before:
                text = f"{title.title} of {target} is stopped by a signal: it does nothing until it is continued"
                problems.append(SourceProblem("engine_frozen", target, text, member.pid))
        self._stopped_now |= {member.identity for member in tree.stopped}
        return problems

    def _sample(self, member: KnownProcess, tree: _Tree) -> ProcessSample:
        """One process as it is now; brings its title in the tree up to date. Raises _Dead or _Unreadable."""
        try:
            handle = self._handles.get(member.identity)
            if handle is None:
                handle = self._handles[member.identity] = psutil.Process(member.pid)
            command_line = handle.cmdline()
            status = read_status(self._proc_root, member.pid)
            # psutil's is_running() asks the same question at four times the cost.
            if read_stat(self._proc_root, member.pid).start_ticks != member.start_ticks:
                raise _Dead("is gone, its pid belongs to another process")
        except psutil.ZombieProcess as error:
            raise _Dead("is a zombie: dead and not yet reaped") from error
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError) as error:
            raise _Dead("is gone") from error
        except (psutil.AccessDenied, OSError) as error:
            raise _Unreadable from error
        if status.state == "Z":
            raise _Dead("is a zombie: dead and not yet reaped")
        if status.rss_bytes is None:
            raise _Dead("is ending: its memory is already released")
        if status.state == STOPPED_STATE:
            tree.stopped.append(member)
        title = tree.retitle(member, parse_title(command_line, member.comm))
        return ProcessSample(
            pid=member.pid,
            title=title.title,
            started_seconds=member.started_seconds,
            parent_pid=status.parent_pid,
            kind=title.kind,
            engine=engine_of(title, tree.above(member)),
            rss_bytes=status.rss_bytes,
            anon_bytes=status.anon_bytes,
            swap_bytes=status.swap_bytes,
            file_bytes=status.file_bytes,
            shmem_bytes=status.shmem_bytes,
            hugetlb_bytes=status.hugetlb_bytes,
            threads=status.threads,
            fds=descriptors(handle),
        )

    def _vanished(
        self, target: str, living: Mapping[tuple[int, int], Title], told: set[int | None]
    ) -> list[SourceProblem]:
        """The processes that lived in the round before, do not any more, and whose death is not told yet."""
        problems: list[SourceProblem] = []
        for (pid, start), title in self._living.get(target, {}).items():
            if (pid, start) not in living and pid not in told:
                problems += _gone(target, title, pid, "is gone")
        return problems

    def _without_processes(self, t: float, target: str, text: str) -> ProcessesObservation:
        """What can be said of a target whose processes are not visible: its container's memory at best."""
        self._servers.pop(target, None)
        problems = self._vanished(target, {}, set())
        self._living.pop(target, None)
        hidden = hidepid_option(self._proc_root)
        if hidden:
            text += f"; {self._proc_root} is mounted with hidepid={hidden}, which hides other users' processes"
        visible = self._table.processes if len(self._targets) == 1 else None
        cgroup, is_container = self._containers.without_process(self._targets[target].cgroup, visible)
        if is_container:
            text += "; the memory of its container as a whole is shown instead"
        problems.append(SourceProblem("process_unreadable", target, text))
        return ProcessesObservation(t, target, (), cgroup, tuple(problems))

    def _ports_of(self, pids: Sequence[int]) -> frozenset[int] | None:
        """Listening ports, asked for until there are some: an open server port does not move."""
        starts = [self._table.processes[pid].start_ticks if pid in self._table.processes else -1 for pid in pids]
        key = (*pids, *starts)
        if key not in self._ports:
            ports = listening_ports(self._proc_root, pids)
            if not ports:
                return ports
            self._ports[key] = ports
        return self._ports[key]

    def _forget(self) -> None:
        """Drops what belongs to processes that are no member of any server now."""
        self._handles = {key: handle for key, handle in self._handles.items() if key in self._assigned}
        self._ports = {key: ports for key, ports in self._ports.items() if key[0] in self._table.processes}
        self._budgets = {key: budgets for key, budgets in self._budgets.items() if key in self._assigned}


def _compiled(name: str, hint: TargetHint) -> re.Pattern[str]:
    try:
        return re.compile(hint.command_pattern or "")
    except re.error as error:
        raise ConfigError(
            f"target {name}: command_pattern {hint.command_pattern!r} is not a regular expression: {error}"
        ) from error


def descriptors(handle: psutil.Process) -> int | None:
    """Open file descriptors; None without the rights of ptrace."""
    try:
        return handle.num_fds()
    except (psutil.Error, OSError):
        return None


def _gone(target: str, title: Title, pid: int, what: str) -> list[SourceProblem]:
    """The problem of a dead process; none for helpers, which come and go."""
    if title.kind not in (*TITLED, "launcher"):
        return []
    return [SourceProblem("process_gone", target, f"{title.title} (pid {pid}) {what}", pid)]
