"""Which source an objective is judged on. In: what pages, spans and the router say of one window. Out: one of them.

A router sees what users see, spans see it request by request and know each prompt's length, and what the servers' pages
say of the system is put together from two legs. The state shows the user's TTFT by the router, then by spans, then
composed. A promise is made for some prompt lengths only, and that turns the order round: where requests outside may be
among those that the router timed, spans come first, for they alone can leave them out.

Neither is believed unless it saw the same requests as the pages: spans within five percent, a router at least half.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.config import Objective
from agent.indicators.facts import DeploymentFacts
from agent.indicators.pools import PoolFacts
from agent.indicators.requests import Requests, SpansView
from agent.indicators.requests.sketch import Sketch
from agent.indicators.system import LEAST_SEEN_SHARE
from agent.verdicts.measurement import UNKNOWN, Measurement, Outside, Range
from agent.verdicts.measuring import QUANTILES
from agent.verdicts.phrases import lengths
from agent.verdicts.wording import percent

COVERED_FROM, COVERED_TO = 0.95, 1.05
EDGE_REQUESTS = 1.0
"""So many requests more or less are the two windows' ends, however few there are."""
SPANS_LATE_SECONDS = 6.0
"""OpenTelemetry's batches wait up to 5 s before they are sent: younger spans are not there yet."""
LONGEST_BY_SPANS_SECONDS = 3600.0
"""Longer windows are judged by the pages: spans' slots would end minutes beside the window."""
BY_ROUTER = frozenset({"ttft", "e2e"})
BY_SPANS = frozenset({"ttft", "tpot", "queue", "prefill", "decode", "e2e"})
BY_JOINED_SPANS = frozenset({"ttft", "tpot", "e2e"})


@dataclass(frozen=True, slots=True)
class Sources:
    """(begin, now) -> the router as of a pool, None without one; what spans say, None where none has ever come."""

    router: Callable[[float, float], PoolFacts | None]
    spans: Callable[[float, float], SpansView | None]


def sources_of(facts: DeploymentFacts, requests: Requests) -> Sources:
    """The sources of a deployment, asked when they are needed."""

    def spans(begin: float, now: float) -> SpansView | None:
        return requests.system(begin, now) if requests.began is not None else None

    return Sources(facts.router, spans)


@dataclass(frozen=True, slots=True)
class Traced:
    """The requests of one indicator and scope by spans: all of them, and those of the promised lengths."""

    every: Sketch
    promised: Sketch


def traced(objective: Objective, view: SpansView) -> Traced | None:
    """None for an indicator that spans do not tell there."""
    indicator = objective.indicator
    if objective.scope == "system":
        if indicator not in BY_JOINED_SPANS:
            return None
        return Traced(view.system_sketch(indicator), view.system_sketch(indicator, contract=True))
    if indicator not in BY_SPANS:
        return None
    pool = objective.scope
    return Traced(view.pool_sketch(pool, indicator), view.pool_sketch(pool, indicator, contract=True))


def best(
    objective: Objective,
    pages: Measurement,
    spans: Traced | None,
    router: Measurement | None,
    promise: tuple[int, int] | None,
) -> Measurement:
    """The measurement to judge. `spans`, `router`: None where there are none, or none for this objective."""
    if pages.condition == "not_applicable":
        return pages
    known = router if router is not None and _saw_enough(router, pages) else None
    if known is not None and known.outside.known and known.outside.high <= 0:
        return known
    note = ""
    if spans is not None and pages.count > 0:
        if covers(spans.every.count, pages.count):
            return _of_spans(objective, pages, spans, promise)
        if spans.every.count:
            part = percent(spans.every.count / pages.count)
            note = f"request spans came of {part} of these requests, too unlike to judge by them"
    chosen = known if known is not None else pages
    return replace(chosen, note="; ".join(text for text in (chosen.note, note) if text))


def covers(spans: float, pages: float) -> bool:
    """Whether spans tell of the requests that the pages counted: nearly all of them and no others."""
    low, high = min(COVERED_FROM * pages, pages - EDGE_REQUESTS), max(COVERED_TO * pages, pages + EDGE_REQUESTS)
    return low <= spans <= high


def _saw_enough(router: Measurement, pages: Measurement) -> bool:
    return router.condition == "ok" and router.count > 0 and router.count >= LEAST_SEEN_SHARE * pages.count


def _of_spans(objective: Objective, pages: Measurement, spans: Traced, promise: tuple[int, int] | None) -> Measurement:
    promised, every = spans.promised.count, spans.every.count
    few = every < objective.min_requests
    frame = Measurement(
        "ok",
        judged_on="traces",
        count=promised,
        needed=objective.min_requests,
        active=pages.active,
        # Few promised ones among many that ended are no collapse.
        live=pages.live if few else None,
    )
    if not promised:
        return replace(frame, count=every, outside=Outside(every, every))
    within = f" inside {lengths(promise)} prompt tokens" if promise is not None else ""
    note = f"by request spans, {promised} of {every} requests{within}" if promised < every else ""
    return replace(frame, range=_range(objective, spans.promised), note=note)


def _range(objective: Objective, sketch: Sketch) -> Range:
    if objective.statistic == "mean":
        mean = sketch.mean
        return UNKNOWN if mean is None else Range.certain(mean, mean, mean)
    if objective.statistic == "share":
        return share_within(sketch, objective.target)
    found = sketch.quantile(QUANTILES[objective.statistic])
    if found is None:
        return UNKNOWN
    high = found.low if found.high is None else found.high
    return Range.certain(found.value, found.low, high)


def share_within(sketch: Sketch, target: float) -> Range:
    """The share of values at or below `target`: certain but for those in its bucket, which is 1 % wide."""
    count = sketch.count

    def up_to(end: Callable[[int], float]) -> float:
        return bisect_right(range(1, count + 1), target, key=end) / count

    def low_end(rank: int) -> float:
        found = sketch.quantile(rank / count)
        return found.low if found is not None else 0.0

    def high_end(rank: int) -> float:
        found = sketch.quantile(rank / count)
        return found.high if found is not None and found.high is not None else low_end(rank)

    low, high = up_to(high_end), up_to(low_end)
    return Range.certain((low + high) / 2, low, high)
