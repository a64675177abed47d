"""Observations as a recording. In: observations one after another. Out: a file of JSON lines, gzip by its name.

Written so that a kill at any moment leaves a file that reads up to a few seconds before it.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from agent.errors import RecordingError
from agent.model import Observation
from agent.sources.recordings.lines import encode

FLUSH_SECONDS = 5.0
"""How much of a recording a kill may cost, by the observations' own time."""


class RecordingWriter:
    """Writes one recording. A file that holds something already is refused: recordings are not overwritten.

    `max_bytes` bounds the file (after compression); once reached, `write` returns False and writes no more.
    Raises RecordingError when the file cannot be opened or written.
    """

    def __init__(self, path: str | Path, max_bytes: int | None = None) -> None:
        self.path = Path(path)
        self.max_bytes = max_bytes
        self.bytes_written = 0
        self.is_full = False
        self._flushed_at: float | None = None
        self._deflater = None if self.path.suffix != ".gz" else zlib.compressobj(6, zlib.DEFLATED, 31)
        try:
            if self.path.exists() and self.path.stat().st_size:
                raise RecordingError(f"{path}: exists already; name a new file")
            self._file: BinaryIO = self.path.open("wb")
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written: {error.strerror or error}") from error

    def write(self, observation: Observation) -> bool:
        """Append one observation (a page without its HELP lines). False when the file is full."""
        if self.is_full:
            return False
        line = json.dumps(encode(observation), ensure_ascii=False, separators=(",", ":")) + "\n"
        # Characters that UTF-8 has no bytes for (a lone surrogate from a broken page) become question marks.
        data = line.encode("utf-8", "replace")
        if self._deflater is None:
            if self.max_bytes is not None and self.bytes_written + len(data) > self.max_bytes:
                self.is_full = True
                return False
            self._put(data)
        else:
            self._put(self._deflater.compress(data))
        if self._flushed_at is None or abs(observation.t - self._flushed_at) >= FLUSH_SECONDS:
            self._flushed_at = observation.t
            self.flush()
        return True

    def flush(self) -> None:
        """Bring everything written so far into the file, readable as it stands."""
        if self._deflater is not None:
            self._put(self._deflater.flush(zlib.Z_SYNC_FLUSH))
        try:
            self._file.flush()
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """End the file properly. May be called again."""
        if self._file.closed:
            return
        try:
            if self._deflater is not None:
                self._put(self._deflater.flush())
        finally:
            self._file.close()

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        self.bytes_written += len(data)
        self.is_full = self.max_bytes is not None and self.bytes_written >= self.max_bytes
