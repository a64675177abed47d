"""Work that does not move: one target's newest intervals come in, engines that stand still go out.

Gauges freeze with the engine that feeds them, so "running" alone proves nothing; what proves it is work present on
every page of a stretch and not one token, step or transfer in all of it. A prefill engine may compute one long prompt
for a minute without any counter moving, so it is given more time than decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.indicators.pools import PoolFacts, TargetFacts
from agent.model import TARGET_WIDE, Layout, Problem
from agent.verdicts.wording import duration, percent
from agent.windows.interval import Interval

DECODE_FROZEN_SECONDS = 60.0
PREFILL_FROZEN_SECONDS = 300.0
KV_STALLED_SECONDS = 90.0
KV_PINNED_SECONDS = 60.0
KV_FULL_SHARE = 0.95
LEAST_EXPECTED_REQUESTS = 20.0
PROGRESS_COUNTERS = frozenset({"generation_tokens", "prompt_tokens", "requests_finished"})
PROGRESS_HISTOGRAMS = frozenset({"ttft", "itl", "e2e", "iteration_tokens"})
TRANSFER_HISTOGRAMS = frozenset({"kv_transfer_time"})


@dataclass(frozen=True, slots=True)
class Standstill:
    """How long one engine has shown nothing of one kind, and its gauges at the least in that time."""

    since: float
    seconds: float
    least: dict[tuple[str, str], float]
    """(metric, label) -> the smallest value on any page of the stretch; only gauges that were on all of them."""

    def at_least(self, metric: str, label: str = "") -> float:
        """The smallest value in the stretch, 0 where it is not known."""
        return self.least.get((metric, label), 0.0)


def stalls(pool: PoolFacts) -> list[Problem]:
    """Engines of the pool that stand still with work in hand."""
    found: list[Problem] = []
    for name, target in pool.targets.items():
        if target.fresh:
            found.extend(_of_target(pool, name, target))
    return found


def silent_engines(pool: PoolFacts, since: float) -> list[Problem]:
    """Engines that began no request in the window while their siblings began so many that chance does not explain it.

    An engine that hung while it was idle shows no work: its gauges stay at 0, and what is sent to it waits unseen.
    """
    begun: dict[tuple[str, str], float] = {}
    for name, target in pool.targets.items():
        if target.fresh:
            for engine, gain in target.gained.engines.items():
                if engine != TARGET_WIDE and "ttft" in gain.histograms:
                    begun[name, engine] = gain.histograms["ttft"].count
    found = []
    if len(begun) > 1 and sum(begun.values()) / len(begun) >= LEAST_EXPECTED_REQUESTS:
        for (name, engine), count in begun.items():
            if count == 0:
                mean = sum(begun.values()) / len(begun)
                text = (
                    f"engine {engine} of {name} began no request, {mean:.0f} would be its share of the pool's: "
                    "it hangs, or nothing is routed to it"
                )
                evidence = {"expected": mean}
                found.append(Problem("engine_silent", name, since, text, "warning", pool.name, engine, evidence))
    return found


def _of_target(pool: PoolFacts, name: str, target: TargetFacts) -> Iterable[Problem]:
    layout = target.window.layout
    intervals = target.gained.intervals
    if layout is None or not intervals:
        return
    frozen_seconds = PREFILL_FROZEN_SECONDS if pool.role == "prefill" else DECODE_FROZEN_SECONDS
    for engine in layout.engines:
        if engine == TARGET_WIDE:
            continue
        idle = standstill(intervals, engine, PROGRESS_COUNTERS, PROGRESS_HISTOGRAMS)
        if idle is not None:
            problem = _frozen_or_pinned(pool, name, engine, idle, frozen_seconds)
            if problem is not None:
                yield problem
        if pool.role != "prefill":
            unmoved = standstill(intervals, engine, frozenset(), TRANSFER_HISTOGRAMS | {"ttft"})
            if unmoved is not None and unmoved.seconds >= KV_STALLED_SECONDS:
                waiting = max(
                    unmoved.at_least("kv_fetch", "in_progress"), unmoved.at_least("waiting_by_reason", "deferred")
                )
                if waiting > 0:
                    text = (
                        f"engine {engine} of {name}: {waiting:.0f} requests or more have waited for KV "
                        f"for {duration(unmoved.seconds)} and no transfer has completed"
                    )
                    evidence = {"waiting": waiting, "seconds": unmoved.seconds}
                    yield Problem("kv_stalled", name, unmoved.since, text, "critical", pool.name, engine, evidence)


def _frozen_or_pinned(
    pool: PoolFacts, name: str, engine: str, idle: Standstill, frozen_seconds: float
) -> Problem | None:
    running, usage = idle.at_least("running"), idle.at_least("kv_usage")
    capacity = idle.at_least("waiting_by_reason", "capacity")
    deferred = idle.at_least("waiting_by_reason", "deferred")
    waiting = capacity if capacity or deferred else idle.at_least("waiting")
    if running == 0 and waiting > 0 and usage >= KV_FULL_SHARE and idle.seconds >= KV_PINNED_SECONDS:
        text = (
            f"engine {engine} of {name}: KV cache {percent(usage)} full, nothing runs and {waiting:.0f} wait "
            f"for {duration(idle.seconds)}: its blocks are pinned by hand-overs that were never fetched"
        )
        evidence = {"kv_usage": usage, "waiting": waiting, "seconds": idle.seconds}
        return Problem("kv_pinned", name, idle.since, text, "warning", pool.name, engine, evidence)
    if (running > 0 or waiting > 0) and idle.seconds >= frozen_seconds:
        text = (
            f"engine {engine} of {name} stands still: {running:.0f} running and {waiting:.0f} waiting, "
            f"but not one token for {duration(idle.seconds)}"
        )
        evidence = {"running": running, "waiting": waiting, "seconds": idle.seconds}
        return Problem("engine_frozen", name, idle.since, text, "critical", pool.name, engine, evidence)
    return None


def standstill(
    intervals: Sequence[Interval], engine: str, counters: frozenset[str], histograms: frozenset[str]
) -> Standstill | None:
    """The stretch up to the newest page in which none of these metrics of the engine moved; None if the last did."""
    least: dict[tuple[str, str], float] = {}
    since = end = intervals[-1].end
    for interval in reversed(intervals):
        if _moved(interval, engine, counters, histograms):
            break
        shown = _gauges(interval, interval.layout, engine)
        first = since == end
        least = shown if first else {key: min(value, shown[key]) for key, value in least.items() if key in shown}
        since = interval.start
    return None if since == end else Standstill(since, end - since, least)


def _moved(interval: Interval, engine: str, counters: frozenset[str], histograms: frozenset[str]) -> bool:
    layout = interval.layout
    if engine in interval.restarted:
        return True
    for position in interval.counter_ids:
        series = layout.counters[position]
        if series.engine == engine and series.metric in counters:
            return True
    for position in interval.histogram_ids:
        series = layout.histograms[position].series
        if series.engine == engine and series.metric in histograms:
            return True
    return False


def _gauges(interval: Interval, layout: Layout, engine: str) -> dict[tuple[str, str], float]:
    return {
        (series.metric, series.label): value
        for series, value in zip(layout.gauges, interval.gauges, strict=True)
        if series.engine == engine and value == value
    }
