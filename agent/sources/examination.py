"""A closer look at one process that leaks. In: its identity, and what may be read and run. Out: one sentence.

Two things, both off unless configured, since both disturb the process: its mappings, read once when it has warmed up
and once when it leaks (10 to 25 ms of stall per GB), and a command for evidence (a stack dump, a heap snapshot),
run at most once in the process's life, for a bounded time and into a bounded file.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from agent.config.types import Memory
from agent.sources.procfs import CLOCK_TICKS_PER_SECOND, boot_time_seconds, read_stat
from agent.sources.smaps import Mapping, MappingKind, bytes_by_kind, confirm, grown, read_mappings

MOST_OUTPUT_BYTES = 4 << 20
MOST_FILES = 20
GONE_SECONDS = 2.0
MOST_REMEMBERED = 256
"""Processes whose baseline or examination is remembered; the oldest makes room."""
START_TOLERANCE_SECONDS = 2.0
T = TypeVar("T")
KINDS: tuple[MappingKind, ...] = ("heap", "arena", "anonymous", "file", "shmem", "stack")


class Life(NamedTuple):
    """One process from its start to its end: what `most once` refers to."""

    pid: int
    started_seconds: float | None


@dataclass(frozen=True, slots=True)
class _Baseline:
    at: float
    mappings: Sequence[Mapping]


class Examiner:
    """`directory`: where the command's output is kept; without one no command is run."""

    def __init__(self, settings: Memory, directory: Path | None, proc_root: Path = Path("/proc")) -> None:
        self._settings = settings
        self._directory = directory
        self._proc_root = proc_root
        self._baselines: dict[Life, _Baseline | None] = {}
        self._examined: dict[Life, str] = {}

    @property
    def wanted(self) -> bool:
        """Anything is configured at all."""
        return self._settings.mappings or bool(self._settings.evidence_command)

    async def warmed_up(self, life: Life, now: float) -> None:
        """Remembers the mappings of a process that is past its warm-up, once. Never raises."""
        if not self._settings.mappings or life in self._baselines:
            return
        _remember(self._baselines, life, None)
        with suppress(OSError, ValueError):
            if await asyncio.to_thread(self._may_be_read, life):
                mappings = await asyncio.to_thread(read_mappings, life.pid, proc_root=self._proc_root)
                self._baselines[life] = _Baseline(now, mappings)

    async def leaks(self, life: Life, title: str, now: float) -> str:
        """What a closer look shows, as a sentence; the same one for the rest of this life. Never raises."""
        known = self._examined.get(life)
        if known is not None:
            return known
        _remember(self._examined, life, "")
        found = []
        if not await asyncio.to_thread(self._is_ours, life):
            return ""  # it has gone, or runs on another host
        if self._settings.mappings:
            found.append(await self._mappings(life, now))
        if self._settings.evidence_command:
            found.append(await self._command(life, title, now))
        self._examined[life] = "; ".join(sentence for sentence in found if sentence)
        return self._examined[life]

    async def _mappings(self, life: Life, now: float) -> str:
        if not await asyncio.to_thread(self._may_be_read, life):
            confirmation = await asyncio.to_thread(confirm, life.pid, proc_root=self._proc_root)
            return f"its mappings were not read: {confirmation.reason or 'it has gone'}"
        try:
            after = await asyncio.to_thread(read_mappings, life.pid, proc_root=self._proc_root)
        except OSError as error:
            return f"its mappings could not be read: {error.strerror or error}"
        baseline = self._baselines.get(life)
        return grown_sentence(baseline.mappings, after, now - baseline.at) if baseline else held_sentence(after)

    async def _command(self, life: Life, title: str, now: float) -> str:
        if self._directory is None:
            return "the evidence command was not run: without state_dir there is no place for its output"
        words = [word.replace("{pid}", str(life.pid)) for word in self._settings.evidence_command]
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        name = re.sub(r"[^A-Za-z0-9_]+", "-", title)[:80].strip("-") or "process"
        path = self._directory / f"{moment}-{name}-{life.pid}.txt"
        try:
            await asyncio.to_thread(self._make_room)
            how = await run_bounded(words, path, self._settings.evidence_timeout_seconds)
        except OSError as error:
            return f"the evidence command failed: {error.strerror or error}"
        except ValueError as error:  # a word that no program can be given
            return f"the evidence command failed: {error}"
        return f"the evidence command {how}; its output is in {path}"

    def _make_room(self) -> None:
        assert self._directory is not None
        self._directory.mkdir(parents=True, exist_ok=True)
        for old in sorted(self._directory.glob("*.txt"))[: -(MOST_FILES - 1)]:
            old.unlink(missing_ok=True)

    def _is_ours(self, life: Life) -> bool:
        """The process with this pid began when that one did: else the pid means another, perhaps on this host only."""
        try:
            began = read_stat(str(self._proc_root), life.pid).start_ticks / CLOCK_TICKS_PER_SECOND
        except (OSError, ValueError):
            return False
        booted = boot_time_seconds(str(self._proc_root))
        if booted is None or life.started_seconds is None:
            return False
        return abs(booted + began - life.started_seconds) <= START_TOLERANCE_SECONDS

    def _may_be_read(self, life: Life) -> bool:
        """Small enough not to be held up by it, and readable: the sums are asked for first."""
        return self._is_ours(life) and confirm(life.pid, proc_root=self._proc_root).rollup is not None


def grown_sentence(before: Sequence[Mapping], after: Sequence[Mapping], seconds: float) -> str:
    """Which kinds of mapping and which single ones grew in `seconds`, largest first."""
    earlier, later = bytes_by_kind(before), bytes_by_kind(after)
    changes = {kind: later.get(kind, 0) - earlier.get(kind, 0) for kind in KINDS}
    kinds = [f"{kind} {_mib(change)}" for kind, change in sorted(changes.items(), key=lambda item: -item[1])]
    kinds = [words for words in kinds if not words.endswith(" 0 MiB")]
    largest = [f"{_named(one.mapping)} {_mib(one.grown_bytes)}" for one in grown(before, after, most=3)]
    if not kinds or not largest:
        return f"none of its mappings grew in the last {seconds / 3600:.1f} h"
    return f"in {seconds / 3600:.1f} h its mappings changed by {', '.join(kinds)}; most in {', '.join(largest)}"


def held_sentence(mappings: Sequence[Mapping]) -> str:
    """What the process holds, by kind, where no earlier reading is there to compare with."""
    sums = sorted(bytes_by_kind(mappings).items(), key=lambda item: -item[1])
    kinds = [f"{kind} {size_bytes / 2**20:.0f} MiB" for kind, size_bytes in sums if size_bytes >= 1 << 20]
    return f"its mappings hold {', '.join(kinds)} (no earlier reading to compare with)" if kinds else ""


async def run_bounded(words: Sequence[str], path: Path, timeout_seconds: float) -> str:
    """Runs a command with its output into `path`, at most MOST_OUTPUT_BYTES of it and for `timeout_seconds`.

    Out: how it ended, in words. The whole group of processes that it started is killed when its time or its room is
    over. Raises OSError where it cannot be started or the file not be written.
    """
    # A pipe of our own: one that asyncio makes has to be read to its end before it takes the process for ended, and
    # that never comes when the rest of a flood is not wanted, or a process outside the group holds the pipe open.
    reading, writing = os.pipe()
    output = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reading, "rb")
    )
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            return await _written(output, process, path, timeout_seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):  # the kernel may hold a process that it cannot kill at once
                async with asyncio.timeout(GONE_SECONDS):
                    await process.wait()
    finally:
        pipe.close()


async def _written(
    output: asyncio.StreamReader, process: asyncio.subprocess.Process, path: Path, timeout_seconds: float
) -> str:
    """Brings what the process says into `path` within the limits; how it ended, in words. Raises OSError."""
    written = 0
    try:
        with path.open("wb") as file:
            async with asyncio.timeout(timeout_seconds):
                while part := await output.read(1 << 16):
                    file.write(part[: MOST_OUTPUT_BYTES - written])
                    written += len(part)
                    if written >= MOST_OUTPUT_BYTES:
                        return f"was ended at {MOST_OUTPUT_BYTES >> 20} MiB of output"
                return f"ended with exit code {await process.wait()}"
    except TimeoutError:
        return f"was ended after {timeout_seconds:g} s"


def _named(mapping: Mapping) -> str:
    name = "".join(letter if letter.isprintable() else "?" for letter in mapping.name[-60:])
    return name or f"{mapping.kind} at {mapping.start:#x}"


def _mib(size_bytes: float) -> str:
    mib = round(size_bytes / 2**20)
    return f"{mib:+d} MiB" if mib else "0 MiB"


def _remember(memory: dict[Life, T], life: Life, value: T) -> None:
    memory[life] = value
    while len(memory) > MOST_REMEMBERED:
        memory.pop(next(iter(memory)))
