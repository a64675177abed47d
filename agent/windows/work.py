"""Work done: intervals of one target come in, steps, requests and tokens of each engine since the watch began go out.

A leak follows something: every scheduler step, every request, every token, or plain time. To tell which, the memory
watch needs these counts at the moment of each memory reading.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.windows.interval import Interval

STEP_HISTOGRAM = "iteration_tokens"
TOKEN_COUNTERS = frozenset({"generation_tokens", "prompt_tokens"})


class Work(NamedTuple):
    """Counts that only grow. `steps`: output batches of the engine (vLLM's iteration_tokens count)."""

    steps: float = 0.0
    requests: float = 0.0
    tokens: float = 0.0

    def plus(self, other: Work) -> Work:
        return Work(self.steps + other.steps, self.requests + other.requests, self.tokens + other.tokens)


class WorkDone:
    """Per engine of one target."""

    def __init__(self) -> None:
        self._engines: dict[str, Work] = {}
        self.tokens_per_second: dict[str, float] = {}
        """Engine -> rate over the newest interval: the load that memory may answer to."""
        self.until = float("-inf")
        """Moment of the newest page that was counted, unix seconds."""

    def add(self, interval: Interval) -> None:
        """Counts one interval."""
        self.until = interval.end
        gained: dict[str, Work] = {engine: Work() for engine in interval.layout.engines}
        for position, step in zip(interval.counter_ids, interval.counter_steps, strict=True):
            series = interval.layout.counters[position]
            if series.metric in TOKEN_COUNTERS:
                gained[series.engine] = gained.get(series.engine, Work()).plus(Work(tokens=step))
            elif series.metric == "requests_finished":
                gained[series.engine] = gained.get(series.engine, Work()).plus(Work(requests=step))
        at = 0
        for position, fill in zip(interval.histogram_ids, interval.histogram_fills, strict=True):
            series = interval.layout.histograms[position].series
            if series.metric == STEP_HISTOGRAM:
                steps = sum(interval.bucket_steps[at : at + fill])
                gained[series.engine] = gained.get(series.engine, Work()).plus(Work(steps=steps))
            at += fill
        for engine, work in gained.items():
            self._engines[engine] = self._engines.get(engine, Work()).plus(work)
            self.tokens_per_second[engine] = work.tokens / interval.seconds if interval.seconds > 0 else 0.0

    def of(self, engine: str | None) -> Work:
        """Of one engine, or of all engines together."""
        if engine is not None:
            return self._engines.get(engine, Work())
        total = Work()
        for work in self._engines.values():
            total = total.plus(work)
        return total

    def load(self, engine: str | None) -> float | None:
        """Tokens per second of one engine, or of all; None before the first interval."""
        if not self.tokens_per_second:
            return None
        if engine is not None:
            return self.tokens_per_second.get(engine)
        return sum(self.tokens_per_second.values())
