"""Which processes form one server, and which server is which target's. In: the known processes, what is
configured about each target, each server's ports. Out: per target its process tree, or a sentence why there
is none. Why: a host runs several servers, and memory put down to the wrong one is worse than none.

Pure: ports are asked for through a function. A server is everything below its launcher; a process titled
`APIServer_DPr` answers on a port of its own and is a server of its own below its supervisor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.sources.ports import command_port, rank_port
from agent.sources.process_table import KnownProcess
from agent.sources.titles import Title, is_python

DEEPEST_TREE = 32
"""Steps up a tree at most: parent links that were read one after another may in theory form a ring."""

TITLED = ("engine_core", "worker", "api_server", "coordinator")
"""Kinds that something launched: above them there is, or was, a launcher."""

NOT_OBSERVED = "memory not observed. Give pid or command_pattern"

PortsOf = Callable[[Sequence[int]], frozenset[int] | None]
"""Listening ports of some processes, None when they cannot be seen."""


@dataclass(frozen=True, slots=True)
class TargetHint:
    """What is known of a target's server on this host. The most exact hint decides: pid, then pattern, then
    port.

    `command_pattern` is a regular expression searched for in the launcher's command line. With no hint at all
    a target gets the only server of the host. `cgroup` names the directory of its container's memory group
    for hosts where the processes themselves cannot be seen.
    """

    port: int | None = None
    command_pattern: str | None = None
    pid: int | None = None
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """One server's processes, its root first. `supervisor` is the command line above an `APIServer_DPr`,
    `supervises` says that this server is what stands above such ones.
    """

    root: KnownProcess
    members: tuple[KnownProcess, ...]
    supervisor: tuple[str, ...] = ()
    supervises: bool = False


def is_relevant(title: Title, _command_line: Sequence[str] = ()) -> bool:
    """Whether a process is recognised as vLLM's by itself: titled, or a launcher by its command line."""
    return title.kind != "other"


def find_servers(processes: Mapping[int, KnownProcess]) -> list[Server]:
    """Groups all processes into servers, ordered by the root's pid."""
    relevant = [process for process in processes.values() if process.relevant]
    if not relevant:
        return []
    roots: dict[int, KnownProcess] = {}
    seeds: dict[int, list[KnownProcess]] = {}
    for process in relevant:
        root = _root_of(process, processes)
        roots[root.pid] = root
        if root.relevant:
            seeds[root.pid] = [root]
        else:
            # Of an unknown Python parent only the vLLM branches are a server's: it may supervise the whole host.
            seeds.setdefault(root.pid, []).append(process)
    children: dict[int, list[KnownProcess]] = {}
    for process in processes.values():
        children.setdefault(process.parent_pid, []).append(process)
    members = {
        pid: ([] if root.relevant else [root]) + _descendants(seeds[pid], children, roots)
        for pid, root in roots.items()
    }
    supervisors = {root.pid: _supervisor(root, processes) for root in roots.values()}
    supervising = {parent.pid for parent in supervisors.values() if parent is not None}
    return [
        Server(root, tuple(members[pid]), above.command_line if above else (), pid in supervising)
        for pid, root in sorted(roots.items())
        for above in (supervisors[pid],)
    ]


def match_servers(
    targets: Mapping[str, TargetHint],
    servers: Sequence[Server],
    assigned: Mapping[tuple[int, int], str],
    ports_of: PortsOf,
) -> dict[str, list[Server] | str]:
    """For each target its servers (the live one first; left-over workers of an earlier life may follow), or
    why there is none.

    `assigned`: identity of a process -> target it was matched to in the round before.
    """
    matches: dict[str, list[Server] | str] = {}
    claims: dict[int, list[str]] = {}
    for target, hint in targets.items():
        chosen = _choose(target, hint, len(targets), servers, assigned, ports_of)
        matches[target] = chosen if isinstance(chosen, str) else [chosen]
        if isinstance(chosen, Server):
            claims.setdefault(chosen.root.pid, []).append(target)
    for pid, claimants in claims.items():
        if len(claimants) > 1:
            for target in claimants:
                others = ", ".join(name for name in claimants if name != target)
                matches[target] = f"process {pid} fits target {others} as well; {NOT_OBSERVED}"
    for server in servers:
        # A dead launcher leaves workers behind; they still hold memory of the target they were started for.
        owner = assigned.get(server.root.identity)
        if server.root.pid not in claims and server.root.title.kind in TITLED and owner in matches:
            found = matches[owner]
            matches[owner] = [server] if isinstance(found, str) else [*found, server]
    return matches


def server_ports(server: Server, ports_of: PortsOf) -> frozenset[int]:
    """The ports on which a server may answer: by its command line if that decides, else by its sockets."""
    fixed = None if server.supervises else command_port(server.root.command_line)
    if fixed is not None:
        return frozenset((fixed,))
    serving = [member.pid for member in server.members[1:] if member.title.kind == "api_server"]
    seen = ports_of([server.root.pid, *serving])
    rank = server.root.title.rank("DP")
    port = None if seen or rank is None else rank_port(server.supervisor, rank)
    return frozenset((port,)) if port is not None else seen or frozenset()


def _choose(
    target: str,
    hint: TargetHint,
    target_count: int,
    servers: Sequence[Server],
    assigned: Mapping[tuple[int, int], str],
    ports_of: PortsOf,
) -> Server | str:
    if hint.pid is not None:
        what = f"pid {hint.pid}"
        fitting = [server for server in servers if any(member.pid == hint.pid for member in server.members)]
        if hint.command_pattern:
            what += f" with a command line matching {hint.command_pattern!r}"
            fitting = [server for server in fitting if _matches(server, hint.command_pattern)]
    elif hint.command_pattern:
        what = f"a command line matching {hint.command_pattern!r}"
        fitting = [server for server in servers if _matches(server, hint.command_pattern)]
    elif hint.port is not None:
        what = f"port {hint.port}"
        fitting = [server for server in servers if hint.port in server_ports(server, ports_of)]
    else:
        what = "no port, pid or command_pattern"
        fitting = list(servers) if target_count == 1 else []
    if len(fitting) > 1 and hint.port is not None:
        fitting = [server for server in fitting if hint.port in server_ports(server, ports_of)] or fitting
    if len(fitting) > 1:
        kept = [server for server in fitting if assigned.get(server.root.identity) == target]
        fitting = kept if len(kept) == 1 else fitting
    if len(fitting) > 1:
        pids = ", ".join(str(server.root.pid) for server in fitting)
        return f"{len(fitting)} servers fit ({what}: pids {pids}); {NOT_OBSERVED}"
    if not fitting:
        return f"target process not found; memory not observed (looked for {what})"
    return fitting[0]


def _matches(server: Server, pattern: str) -> bool:
    lines = (server.root.command_line, server.supervisor)
    return any(re.search(pattern, " ".join(line)) for line in lines if line)


def _parent(process: KnownProcess, processes: Mapping[int, KnownProcess]) -> KnownProcess | None:
    """The parent, if the process that now has its pid can be it: a parent is older than its children."""
    parent = processes.get(process.parent_pid)
    if parent is None or parent.pid == process.pid or parent.start_ticks > process.start_ticks:
        return None
    return parent


def _own_server(process: KnownProcess) -> bool:
    return process.title.kind == "api_server" and process.title.rank("DP") is not None


def _root_of(process: KnownProcess, processes: Mapping[int, KnownProcess]) -> KnownProcess:
    """The topmost relevant process at or above this one; for titled processes without one, their Python
    parent.
    """
    root = process
    current: KnownProcess | None = process
    for _ in range(DEEPEST_TREE):
        if current is None:
            break
        if current.relevant:
            root = current
            if _own_server(current):
                return current
        current = _parent(current, processes)
    if root.title.kind in TITLED:
        parent = _parent(root, processes)
        if parent is not None and is_python(parent.title.title, parent.comm):
            return parent  # a launcher of somebody's own
    return root


def _descendants(
    seeds: Sequence[KnownProcess],
    children: Mapping[int, Sequence[KnownProcess]],
    roots: Mapping[int, KnownProcess],
) -> list[KnownProcess]:
    """The seeds and all below them, each once, parents first; other servers' roots and theirs are left out."""
    found = {process.pid: process for process in seeds}
    waiting = list(seeds)
    for parent in waiting:  # grows while it is walked
        for child in children.get(parent.pid, ()):
            if child.pid not in found and child.pid not in roots and child.start_ticks >= parent.start_ticks:
                found[child.pid] = child
                waiting.append(child)
    return list(found.values())


def _supervisor(root: KnownProcess, processes: Mapping[int, KnownProcess]) -> KnownProcess | None:
    return _parent(root, processes) if _own_server(root) else None
