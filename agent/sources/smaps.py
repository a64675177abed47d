"""Where a process's memory lies, mapping by mapping. In: `smaps_rollup` and `smaps` of one process, read by
hand or once at an alarm. Out: PSS and USS, bytes by kind, the mappings that grew. Why: a leak's kind (heap,
anonymous mapping, file, shared memory) says where to look.

Never polled: the kernel walks all page tables under the lock that the process needs for its own allocations,
10 to 25 ms per GB with small pages. `confirm` therefore refuses above a size. Both files need the rights of
ptrace; without them the answer is a reason, never a zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from agent.sources.procfs import read_file, read_status

CONFIRM_BELOW_BYTES = 8 << 30
ARENA_BYTES = 64 << 20
"""glibc places the heaps of its thread arenas at multiples of this size (malloc/arena.c, HEAP_MAX_SIZE on 64
bit).
"""

MappingKind = Literal["heap", "arena", "stack", "anonymous", "file", "shmem", "device", "kernel"]

_HEADER = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ *(.*)$")
_SHARED_MEMORY = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/run/shm/")  # noqa: S108


class Rollup(NamedTuple):
    """The sums of one process. PSS shares each page among those who map it; USS is what nobody else maps."""

    rss_bytes: int
    pss_bytes: int
    uss_bytes: int
    swap_bytes: int


class Mapping(NamedTuple):
    """One mapping: `start` is its address; `anon_bytes` are its private pages without a file."""

    start: int
    kind: MappingKind
    name: str
    size_bytes: int
    rss_bytes: int
    pss_bytes: int
    anon_bytes: int
    swap_bytes: int


class Grown(NamedTuple):
    """One mapping that holds more than before, resident and swapped."""

    mapping: Mapping
    grown_bytes: int


class Confirmation(NamedTuple):
    """The one reading at an alarm, or why there is none (`rollup` is None and `reason` says it)."""

    rollup: Rollup | None
    reason: str = ""


def confirm(pid: int, *, proc_root: Path = Path("/proc"), below_bytes: int = CONFIRM_BELOW_BYTES) -> Confirmation:
    """Reads a process's exact sums once, if it is small enough not to be held up by that. Never raises."""
    try:
        rss_bytes = read_status(str(proc_root), pid).rss_bytes
        if rss_bytes is None:
            return Confirmation(None, f"process {pid} has no memory: it is ending")
        if rss_bytes > below_bytes:
            return Confirmation(
                None,
                f"process {pid} holds {rss_bytes / 2**30:.1f} GiB: reading its page tables would stall it "
                f"(limit {below_bytes / 2**30:.1f} GiB)",
            )
        return Confirmation(parse_rollup(read_file(f"{proc_root}/{pid}/smaps_rollup")))
    except PermissionError:
        return Confirmation(None, f"smaps_rollup of process {pid} may not be read: it needs CAP_SYS_PTRACE")
    except (FileNotFoundError, ProcessLookupError):
        return Confirmation(None, f"process {pid} is gone, or its kernel has no smaps_rollup")
    except (OSError, ValueError) as error:
        return Confirmation(None, f"smaps_rollup of process {pid} cannot be read: {error}")


def read_mappings(pid: int, *, proc_root: Path = Path("/proc")) -> list[Mapping]:
    """All mappings of a process, by hand only. Raises OSError (gone, not allowed)."""
    content = b""
    with Path(proc_root, str(pid), "smaps").open("rb") as file:
        content = file.read()
    return parse_smaps(content)


def parse_rollup(content: bytes) -> Rollup:
    """`smaps_rollup` in bytes. Raises ValueError when it has no PSS."""
    fields = _fields(content.splitlines()[1:])
    if b"Pss" not in fields:
        raise ValueError("no Pss line")
    return Rollup(
        rss_bytes=fields.get(b"Rss", 0),
        pss_bytes=fields[b"Pss"],
        uss_bytes=fields.get(b"Private_Clean", 0) + fields.get(b"Private_Dirty", 0),
        swap_bytes=fields.get(b"SwapPss", fields.get(b"Swap", 0)),
    )


def parse_smaps(content: bytes) -> list[Mapping]:
    """`smaps` as a list, in address order. Lines that are neither a header nor a size are left out."""
    mappings: list[Mapping] = []
    header: re.Match[bytes] | None = None
    lines: list[bytes] = []
    for line in [*content.splitlines(), b"0-0 ---- 0 0 0"]:
        match = _HEADER.match(line)
        if match is None:
            lines.append(line)
            continue
        if header is not None:
            mappings.append(_mapping(header, lines))
        header, lines = match, []
    return mappings


def bytes_by_kind(mappings: Iterable[Mapping]) -> dict[MappingKind, int]:
    """Resident and swapped bytes of each kind."""
    sums: dict[MappingKind, int] = {}
    for mapping in mappings:
        sums[mapping.kind] = sums.get(mapping.kind, 0) + mapping.rss_bytes + mapping.swap_bytes
    return sums


def grown(before: Sequence[Mapping], after: Sequence[Mapping], *, most: int = 10) -> list[Grown]:
    """The mappings of `after` that hold more than in `before`, the largest growth first; new ones count in
    full.

    A mapping is the same while its start address and name are: the kernel grows it at its end.
    """
    held = {(mapping.start, mapping.name): mapping.rss_bytes + mapping.swap_bytes for mapping in before}
    changes = [
        Grown(mapping, mapping.rss_bytes + mapping.swap_bytes - held.get((mapping.start, mapping.name), 0))
        for mapping in after
    ]
    changes.sort(key=lambda change: -change.grown_bytes)
    return [change for change in changes[:most] if change.grown_bytes > 0]


def _mapping(header: re.Match[bytes], lines: Iterable[bytes]) -> Mapping:
    fields = _fields(lines)
    start, end = int(header[1], 16), int(header[2], 16)
    name = header[4].decode("utf-8", "replace")
    return Mapping(
        start=start,
        kind=_kind(name, start),
        name=name,
        size_bytes=end - start,
        rss_bytes=fields.get(b"Rss", 0),
        pss_bytes=fields.get(b"Pss", 0),
        anon_bytes=fields.get(b"Anonymous", 0),
        swap_bytes=fields.get(b"Swap", 0),
    )


def _kind(name: str, start: int) -> MappingKind:
    if name.startswith("[heap"):
        return "heap"
    if name.startswith("[stack"):
        return "stack"
    if not name or name.startswith("[anon"):
        return "arena" if start % ARENA_BYTES == 0 else "anonymous"
    if name.startswith("["):
        return "kernel"
    if name.startswith(_SHARED_MEMORY):
        return "shmem"
    return "device" if name.startswith("/dev/") else "file"


def _fields(lines: Iterable[bytes]) -> dict[bytes, int]:
    """`Rss:   12 kB` lines as bytes."""
    fields: dict[bytes, int] = {}
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[2] == b"kB" and words[1].isdigit():
            fields[words[0].rstrip(b":")] = int(words[1]) * 1024
    return fields
