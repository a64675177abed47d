"""Who a process is, by its title. In: command line and 15-byte name of a process, and the titles above it in
the tree. Out: kind, title, and the engine (data-parallel rank) it works for. Why: a leak is named by role and
rank, never by pid.

vLLM titles its processes `PREFIX::EngineCore_DP1`, `PREFIX::Worker_DP1_TP0`, `PREFIX::APIServer_3`,
`PREFIX::DPCoordinator` (prefix `VLLM` unless VLLM_PROCESS_NAME_PREFIX says otherwise). Launchers, and the API
server of a plain server, keep their command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from agent.model import ProcessKind

COMM_BYTES = 15
"""The kernel cuts a thread's name to this many bytes."""

ROLES: dict[str, ProcessKind] = {
    "EngineCore": "engine_core",
    "Worker": "worker",
    "APIServer": "api_server",
    "DPCoordinator": "coordinator",
}
_TITLE = re.compile(rf"^[^\s:/]+::({'|'.join(ROLES)})((?:_[A-Za-z]*\d+)*)$")
_PART = re.compile(r"_([A-Za-z]*)(\d+)")
_INTERPRETER = re.compile(r"^(python|pypy)[\d.]*$")
_OPTIONS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
_SERVER_MODULES = ("dynamo.vllm",)


class Title(NamedTuple):
    """What a process calls itself. `ranks` are the parts of its title, ("", 3) for a bare number.

    `complete` is False when only the cut 15-byte name was readable, so that the ranks may be missing.
    """

    title: str
    kind: ProcessKind
    ranks: tuple[tuple[str, int], ...] = ()
    complete: bool = True

    def rank(self, part: str) -> int | None:
        """The number behind one part of the title, such as DP or TP."""
        return next((number for name, number in self.ranks if name == part), None)


def parse_title(command_line: Sequence[str], comm: str) -> Title:
    """The title of a process by its command line, or by its cut name where the command line is empty or
    unreadable.

    Never holds arguments: a command line may carry keys and would make an alert's identity volatile.
    """
    first = command_line[0] if command_line else ""
    for text, complete in ((first, True), (comm, len(comm.encode()) < COMM_BYTES)):
        match = _TITLE.match(text)
        if match:
            ranks = tuple((name, int(number)) for name, number in _PART.findall(match[2]))
            return Title(text, ROLES[match[1]], ranks, complete)
    kind = _kind_of_cut_name(comm)
    if kind:
        return Title(comm, kind, complete=False)
    program = server_program(command_line)
    if program:
        return Title(program, "launcher")
    return Title(_helper_name(command_line) or comm or "unknown", "other")


def server_program(command_line: Sequence[str]) -> str | None:
    """`vllm serve`, or a module that serves, if this command line *is* a vLLM server; None for a shell or
    tool naming it.
    """
    words = list(command_line)
    if not words:
        return None
    if _INTERPRETER.match(_file_name(words[0])):
        words = _after_interpreter(words)
    if not words:
        return None
    if words[0] == "-m" and len(words) > 1:
        module = words[1]
        if module in _SERVER_MODULES:
            return module
        if module.startswith("vllm.entrypoints.") and not module.startswith("vllm.entrypoints.cli"):
            return "vllm serve"
        words = ["vllm", *words[2:]] if module == "vllm" or module.startswith("vllm.entrypoints.cli") else []
    is_command = len(words) > 1 and _file_name(words[0]) == "vllm" and words[1] == "serve"
    return "vllm serve" if is_command else None


def is_python(title: str, comm: str) -> bool:
    """Whether a process without vLLM's title can be the launcher of an engine: a Python program of somebody's own."""
    return comm == "pt_main_thread" or any(_INTERPRETER.match(name) for name in (title, comm))


def engine_of(title: Title, ancestors: Sequence[Title]) -> str | None:
    """The engine a process works for, as the metrics page labels it; None when it serves all of them, or is
    unknown.

    `ancestors`: the titles above it, the nearest first. A worker of a dense data-parallel engine does not
    carry the rank itself: its engine core does. A lone engine core without a rank is engine "0".
    """
    if title.kind in ("launcher", "coordinator"):
        return None
    own = title.rank("DP")
    if own is None and title.kind == "engine_core":
        own = title.rank("")
    if own is not None:
        return str(own)
    if title.kind == "api_server":
        return None
    for index, ancestor in enumerate(ancestors):
        if ancestor.kind == "api_server" and ancestor.rank("DP") is not None:
            return str(ancestor.rank("DP"))
        if ancestor.kind in ("engine_core", "worker") and title.kind != "engine_core":
            return engine_of(ancestor, ancestors[index + 1 :])
    return "0" if title.kind == "engine_core" and title.complete else None


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _kind_of_cut_name(comm: str) -> ProcessKind | None:
    """`VLLM::EngineCor` is an engine core: a name of full length whose tail begins (or is begun by) one role
    only.
    """
    prefix, separator, tail = comm.partition("::")
    if not separator or not prefix or len(tail) < 2 or len(comm.encode()) < COMM_BYTES:
        return None
    for role, kind in ROLES.items():
        if role.startswith(tail) or tail.startswith(role + "_"):
            return kind
    return None


def _after_interpreter(words: list[str]) -> list[str]:
    """What a Python command line runs: `-m module ...` or `script ...`; empty for `-c code`."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "-m":
            return words[index:]
        if words[index] == "-c":
            return []
        index += 2 if words[index] in _OPTIONS_WITH_VALUE else 1
    return words[index:]


def _helper_name(command_line: Sequence[str]) -> str | None:
    """A short, stable name for vLLM's nameless helpers, which run as `python -c "from multiprocessing.X
    import ..."`.
    """
    for word in command_line[1:]:
        match = re.search(r"from multiprocessing\.(\w+) import", word)
        if match:
            return f"multiprocessing.{match[1]}"
    return _file_name(command_line[0]) if command_line else None
