"""What one engine, or one HTTP frontend, has counted since its start. In: single observations. Out: sums and counts.

Histograms hold plain counts per bucket, not cumulative; a page adds them up when it is rendered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from agent.demo import families


class Histogram:
    """Counts per bucket (the last one above the top edge), their sum, and whether they changed since last shown."""

    __slots__ = ("changed", "counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.total = 0.0
        self.changed = True

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value
        self.changed = True

    def add(self, bucket: int, count: int) -> None:
        """Count several observations of one bucket whose sum is added to `total` by the caller."""
        self.counts[bucket] += count
        self.changed = True

    def bucket(self, value: float) -> int:
        """Which bucket an observation of `value` falls into."""
        return bisect_left(self.edges, value)


class EngineMetrics:
    """One engine's counters and gauges by key, and its histograms. `stepped`: the engine has had its first step."""

    __slots__ = ("counters", "gauges", "histograms", "stepped")

    def __init__(self, depth: int, max_model_len: int) -> None:
        counters = (*families.speculation(depth), *families.NIXL_COUNTERS, *families.ESTIMATES, *families.COUNTERS)
        self.counters: dict[str, float] = {key: 0 for family in counters for key in family.keys}
        self.gauges: dict[str, float] = {key: 0 for family in families.GAUGES for key in family.keys}
        self.gauges["sleep_state/awake"] = 1
        tokens = families.token_edges(max_model_len)
        self.histograms = {
            family.key: Histogram(tokens if family.edges is None else family.edges)
            for family in (*families.NIXL_HISTOGRAMS, *families.HISTOGRAMS)
        }
        self.stepped = False


class HttpMetrics:
    """What one server's HTTP frontend counts. `handler` has no series before its first answer."""

    __slots__ = ("by_status", "coarse", "fine", "request_bytes", "response_bytes")

    def __init__(self) -> None:
        self.by_status: dict[str, int] = {}
        self.request_bytes = 0
        self.response_bytes = 0
        self.fine = Histogram(families.HTTP_FINE)
        self.coarse = Histogram(families.HTTP_COARSE)

    def answered(self, seconds: float, request_bytes: int, response_bytes: int, status: str = "2xx") -> None:
        """One request whose answer is complete; a stream's body counts as 0 bytes."""
        self.by_status[status] = self.by_status.get(status, 0) + 1
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self.fine.observe(seconds)
        self.coarse.observe(seconds)

    @property
    def count(self) -> int:
        return sum(self.by_status.values())
