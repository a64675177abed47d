"""What targets showed in the last minutes, kept in memory. In: observations. Out: a recording, ready to be written.

Each line of the recording is a gzip member of its own, and members one after another are a gzip file: so writing costs
nothing, and what is too old or too much falls off the front. Pages of one target are thinned, since keeping one costs
about 13 ms of CPU per megabyte; failures, process readings and spans are all kept.
"""

from __future__ import annotations

import json
import zlib
from collections import deque

from agent.model import ClockStepObservation, Observation, PageObservation
from agent.sources.recordings.lines import encode

KEEP_SECONDS = 330.0
MOST_BYTES = 64 << 20
PAGE_EVERY_SECONDS = 10.0
_LEVEL = 1
_GZIP = 31
_EARLY_RATIO = 0.9
"""Scrapes are never exactly on time: one that comes a little early is due all the same."""


class RecentObservations:
    """`most_bytes`: compressed, of all targets together; 0 keeps nothing and costs nothing."""

    def __init__(
        self,
        keep_seconds: float = KEEP_SECONDS,
        most_bytes: int = MOST_BYTES,
        page_every_seconds: float = PAGE_EVERY_SECONDS,
    ) -> None:
        self._keep_seconds = keep_seconds
        self._most_bytes = most_bytes
        self._page_every_seconds = page_every_seconds
        self._lines: deque[tuple[float, bytes]] = deque()
        self._pages: dict[str, float] = {}
        self.bytes = 0
        """Compressed size of everything kept."""

    def add(self, observation: Observation) -> None:
        """Keeps one observation, and lets go of what is too old or too much."""
        if self._most_bytes <= 0 or not self._is_due(observation):
            return
        line = json.dumps(encode(observation), ensure_ascii=False, separators=(",", ":")) + "\n"
        deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        member = deflater.compress(line.encode("utf-8", "replace")) + deflater.flush()
        self._lines.append((observation.t, member))
        self.bytes += len(member)
        while self._lines and (self.bytes > self._most_bytes or self._lines[0][0] < observation.t - self._keep_seconds):
            self.bytes -= len(self._lines.popleft()[1])

    def recording(self) -> list[bytes]:
        """The parts of a `.jsonl.gz` file, in the order of coming in."""
        return [member for _, member in self._lines]

    def _is_due(self, observation: Observation) -> bool:
        if isinstance(observation, ClockStepObservation):
            self._pages.clear()
            return True
        if not isinstance(observation, PageObservation):
            return True
        last = self._pages.get(observation.target)
        since = None if last is None else observation.t - last
        if since is not None and 0 <= since < _EARLY_RATIO * self._page_every_seconds:
            return False
        self._pages[observation.target] = observation.t
        return True
