"""How the main numbers went lately, and a state from before. In: states, now and then. Out: series, an old state.

Bounded: an hour of each series, a quarter of an hour of whole states (compressed, one a minute).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator

from agent.outputs.state_json import state_text
from agent.state import State

NOTE_EVERY_SECONDS = 15.0
SERIES_POINTS = 240
MOST_SERIES = 200
STATE_EVERY_SECONDS = 60.0
STATES_KEPT = 15

Points = deque[tuple[float, float | None]]


class Course:
    """One deployment's recent past."""

    def __init__(self) -> None:
        self.series: dict[str, Points] = {}
        """Name with unit -> (unix seconds, value) in the order of time; None: not known then."""
        self._states: deque[tuple[float, bytes]] = deque(maxlen=STATES_KEPT)
        self._noted: float | None = None

    def note(self, state: State) -> None:
        """Takes a state in; one that comes sooner than is needed is left alone."""
        if self._noted is not None and 0 <= state.at - self._noted < NOTE_EVERY_SECONDS:
            return
        self._noted = state.at
        for name, value in _values(state):
            if name in self.series or len(self.series) < MOST_SERIES:
                self.series.setdefault(name, deque(maxlen=SERIES_POINTS)).append((state.at, value))
        if not self._states or abs(state.at - self._states[-1][0]) >= STATE_EVERY_SECONDS:
            self._states.append((state.at, zlib.compress(state_text(state).encode(), 1)))

    def charted(self) -> dict[str, Points]:
        """A copy of all series, for another thread."""
        return {name: points.copy() for name, points in self.series.items()}

    def before(self, moment: float) -> str | None:
        """The newest state that is not younger than `moment`, as JSON; else the oldest; None where none is kept."""
        if not self._states:
            return None
        older = [body for at, body in self._states if at <= moment]
        return zlib.decompress(older[-1] if older else self._states[0][1]).decode()


def _values(state: State) -> Iterator[tuple[str, float | None]]:
    yield "system: mean TTFT, s", state.system.ttft.mean
    for name, pool in state.pools.items():
        for latency, word in (("ttft", "mean TTFT, s"), ("tpot", "mean TPOT, s"), ("queue", "mean queue time, s")):
            found = pool.latency.get(latency)
            if found is not None and found.status != "not_applicable":
                yield f"{name}: {word}", found.mean
        yield f"{name}: requests running", pool.load.running
        yield f"{name}: requests waiting", pool.load.waiting
        yield f"{name}: KV cache in use, share", pool.load.kv_usage_max
        yield f"{name}: requests per s", pool.throughput.requests_per_s
        if pool.speculation is not None:
            yield f"{name}: acceptance length, tokens", pool.speculation.acceptance_length
    for target, total in _memory(state).items():
        yield f"{target}: memory of its processes, GiB", total / (1 << 30)


def _memory(state: State) -> dict[str, int]:
    totals: dict[str, int] = {}
    for process in state.memory:
        if process.rss_bytes is not None:
            totals[process.target] = totals.get(process.target, 0) + process.rss_bytes
    return totals
