"""Recordings as observations. In: files of JSON lines, plain or gzip. Out: their observations, in the order of time.

A recording is what a killed recorder left behind as often as what one finished: everything before the cut is given,
and the cut is then reported. Memory holds one minute of each file, whatever its size.
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.errors import RecordingError
from agent.model import ClockStepObservation, Observation
from agent.sources.recordings.lines import decode

DISORDER_SECONDS = 60.0
"""How far back in time a line may lie behind one before it."""

MAX_LINE_BYTES = 256 << 20

_CHUNK_BYTES = 1 << 15  # also what damaged compression costs of the data before the damage
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class RecordingProblem:
    """Something wrong at a line. `broken`: that line cannot be used. `cut_off`: the file ends in the middle."""

    kind: Literal["broken", "cut_off"]
    file: str
    line: int
    text: str

    def error(self) -> RecordingError:
        """The problem as an error, to end with it."""
        return RecordingError(f"{self.file}:{self.line}: {self.text}")


OnProblem = Callable[[RecordingProblem], None]


def read_recording(paths: Sequence[str | Path], on_problem: OnProblem | None = None) -> Iterator[Observation]:
    """The observations of all files together, by time; lines up to a minute out of order are put in order.

    Without `on_problem`, a broken line raises RecordingError where it stands, and a cut-off end does so once
    everything before it (in all files) has been given. With it, each problem is handed over and the line skipped;
    to stop, raise in it. A file that cannot be opened raises RecordingError in any case, and so do files without any
    observation in them.
    """
    if not paths:
        raise RecordingError("no recording given")
    cut_off: list[RecordingProblem] = []

    def end_there(problem: RecordingProblem) -> None:
        if problem.kind == "broken":
            raise problem.error()
        cut_off.append(problem)

    problems: list[RecordingProblem] = []

    def report(problem: RecordingProblem) -> None:
        if not problems:
            problems.append(problem)
        (on_problem or end_there)(problem)

    observation = None
    for observation in heapq.merge(*(_in_order(Path(path), report) for path in paths), key=lambda each: each.t):
        yield observation
    if cut_off:
        raise cut_off[0].error()
    if observation is None:
        why = f"{problems[0].error()}" if problems else f"{', '.join(map(str, paths[:3]))}: nothing was recorded"
        raise RecordingError(f"{why}; there is not one observation in it")


def _in_order(path: Path, report: OnProblem) -> Iterator[Observation]:
    """One file's observations by time: each waits until a line a minute younger has come."""
    waiting: list[tuple[float, int, Observation]] = []
    newest = given = float("-inf")
    count = 0
    for number, observation in _observations(path, report):
        if isinstance(observation, ClockStepObservation):
            # The clock was set: what came before is complete, and time starts anew from here.
            while waiting:
                yield heapq.heappop(waiting)[2]
            newest = given = float("-inf")
        if observation.t < given or observation.t < newest - DISORDER_SECONDS:
            back = max(given, newest) - observation.t
            text = f"lies {back:.0f} s behind a line before it; a recording is in the order of time"
            report(RecordingProblem("broken", str(path), number, text))
            continue
        newest = max(newest, observation.t)
        heapq.heappush(waiting, (observation.t, count, observation))
        count += 1
        while waiting[0][0] < newest - DISORDER_SECONDS:
            given, _, oldest = heapq.heappop(waiting)
            yield oldest
    while waiting:
        yield heapq.heappop(waiting)[2]


def _observations(path: Path, report: OnProblem) -> Iterator[tuple[int, Observation]]:
    """Line number and observation, in the file's order."""
    number = 0
    for number, line, whole in _lines(path, report):
        if not line.strip():
            continue
        try:
            decoded = list(decode(json.loads(line)))
        except (ValueError, RecursionError) as error:
            # json's errors and UnicodeDecodeError are ValueErrors too.
            kind: Literal["broken", "cut_off"] = "broken" if whole else "cut_off"
            text = (
                f"broken line: {_reason(error)}" if whole else "the last line is cut off; what came before it was read"
            )
            report(RecordingProblem(kind, str(path), number, text))
            continue
        for observation in decoded:
            yield number, observation


def _lines(path: Path, report: OnProblem) -> Iterator[tuple[int, bytes, bool]]:
    """Line number, line, and whether a line feed ended it."""
    number = 0
    rest: list[bytes] = []
    size = 0
    skipping = False
    try:
        for chunk in _bytes(path):
            parts = chunk.split(b"\n")
            for part in parts[:-1]:
                number += 1
                if not skipping:
                    yield number, b"".join([*rest, part]), True
                rest, size, skipping = [], 0, False
            if parts[-1] and not skipping:
                rest.append(parts[-1])
                size += len(parts[-1])
            if size > MAX_LINE_BYTES:
                text = f"broken line: longer than {MAX_LINE_BYTES} bytes"
                report(RecordingProblem("broken", str(path), number + 1, text))
                rest, size, skipping = [], 0, True
    except _Interrupted as end:
        report(RecordingProblem(end.kind, str(path), number + 1, str(end)))
        return
    if rest:
        yield number + 1, b"".join(rest), False


class _Interrupted(Exception):
    """Compressed data that end too early or are damaged."""

    def __init__(self, kind: Literal["broken", "cut_off"], text: str) -> None:
        super().__init__(text)
        self.kind = kind


def _bytes(path: Path) -> Iterator[bytes]:
    """The file's content, decompressed if it begins like gzip, whatever its name says."""
    try:
        with path.open("rb") as file:
            chunk = file.read(_CHUNK_BYTES)
            if not chunk.startswith(_GZIP_MAGIC):
                if chunk and path.suffix == ".gz" and not chunk.lstrip().startswith(b"{"):
                    raise _Interrupted("broken", "neither gzip, as its name says, nor JSON lines")
                while chunk:
                    yield chunk
                    chunk = file.read(_CHUNK_BYTES)
                return
            inflater = zlib.decompressobj(wbits=31)
            while chunk:
                yield from _inflate(inflater, chunk)
                # Behind a complete member may come another one, or padding of zeros.
                chunk = inflater.unused_data.lstrip(b"\0") if inflater.eof else b""
                chunk = chunk or file.read(_CHUNK_BYTES)
                if inflater.eof and chunk.lstrip(b"\0"):
                    inflater = zlib.decompressobj(wbits=31)
            if not inflater.eof:
                raise _Interrupted("cut_off", "the compressed file is cut off; what came before it was read")
    except zlib.error as error:
        raise _Interrupted("broken", f"the compressed data are damaged from here on ({error})") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from error


def _inflate(inflater: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """In pieces of bounded size, so that a bomb fills the line limit and not the memory."""
    while data and not inflater.eof:
        piece = inflater.decompress(data, _CHUNK_BYTES)
        if piece:
            yield piece
        data = inflater.unconsumed_tail


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON ({error.msg} at column {error.colno})"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return str(error) or type(error).__name__
