"""Which port a server answers on. In: its command line, and under a proc root its sockets. Out: ports. Why: a
target is an address; its process tree is found by the port in that address.

The command line is read first: it is readable without privilege and true before the socket is open. Sockets
(`/proc/PID/net/tcp` for the listening ones, `/proc/PID/fd` for whose they are) need the rights of ptrace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.sources.procfs import read_file
from agent.sources.titles import server_program

DEFAULT_PORT = 8000
"""vLLM's `--port` when none is given."""

_LISTEN = b"0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def option_value(command_line: Sequence[str], name: str, short: str = "") -> str | None:
    """The value of `--name value` or `--name=value`, also with underscores; the last one counts, as in argparse."""
    spellings = {f"--{name}", f"--{name.replace('-', '_')}", *([short] if short else [])}
    value: str | None = None
    for index, word in enumerate(command_line):
        option, equals, rest = word.partition("=")
        if option in spellings:
            if equals:
                value = rest
            elif index + 1 < len(command_line):
                value = command_line[index + 1]
    return value


def has_option(command_line: Sequence[str], name: str) -> bool:
    """Whether an option is given at all."""
    spellings = {f"--{name}", f"--{name.replace('-', '_')}"}
    return any(word.partition("=")[0] in spellings for word in command_line)


def command_port(command_line: Sequence[str]) -> int | None:
    """The port that a command line fixes: `--port`, or vLLM's default. None when it does not decide.

    Not decided: another program's command line, a configuration file that may set the port, a Unix socket, a
    headless node (which serves no page).
    """
    if server_program(command_line) != "vllm serve" or has_option(command_line, "headless"):
        return None
    given = option_value(command_line, "port")
    if given is not None:
        return int(given) if given.isdigit() else None
    undecided = has_option(command_line, "config") or has_option(command_line, "uds")
    return None if undecided else DEFAULT_PORT


def rank_port(supervisor: Sequence[str], rank: int) -> int | None:
    """The port of a rank that a supervisor started: one per local rank, counted up from its `--port`."""
    base = command_port(supervisor)
    first = option_value(supervisor, "data-parallel-start-rank", "-dpr")
    if first is None:
        node = option_value(supervisor, "node-rank", "-r") or "0"
        local = option_value(supervisor, "data-parallel-size-local", "-dpl") or "0"
        first = str(int(node) * int(local)) if node.isdigit() and local.isdigit() else ""
    if base is None or not first.isdigit() or rank < int(first):
        return None
    return base + rank - int(first)


def listening_ports(proc_root: str, pids: Iterable[int]) -> frozenset[int] | None:
    """The TCP ports on which these processes listen, each seen in its own network namespace.

    None when no process lets us see its descriptors; empty when they are seen and none listens (yet).
    """
    ports: set[int] = set()
    seen = False
    for pid in pids:
        inodes = _socket_inodes(proc_root, pid)
        if inodes is None:
            continue
        seen = True
        for family in ("tcp", "tcp6"):
            ports.update(port for inode, port in _listening(f"{proc_root}/{pid}/net/{family}") if inode in inodes)
    return frozenset(ports) if seen else None


def _socket_inodes(proc_root: str, pid: int) -> set[int] | None:
    inodes: set[int] = set()
    try:
        for descriptor in Path(proc_root, str(pid), "fd").iterdir():
            try:
                match = _SOCKET.match(str(descriptor.readlink()))
            except FileNotFoundError:
                continue  # closed since the listing
            if match:
                inodes.add(int(match[1]))
    except OSError:
        return None
    return inodes


def _listening(path: str) -> list[tuple[int, int]]:
    """(inode, port) of the listening sockets in one `net/tcp` table; empty when unreadable."""
    try:
        lines = read_file(path).splitlines()[1:]
    except OSError:
        return []
    found: list[tuple[int, int]] = []
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            try:
                found.append((int(fields[9]), int(fields[1].rpartition(b":")[2], 16)))
            except ValueError:
                continue  # not a line of this table
    return found
