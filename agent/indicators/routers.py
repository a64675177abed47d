"""The router in front: what its targets gained comes in, the user's own times and counts go out.

Only the first hop sees what a user sees. Replicas of one router each see a part of the requests and are added up;
one whose page is stale is left out, so that what is shown is of the requests the others saw.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.indicators.distribution import distribution, without_numbers
from agent.indicators.outcomes import rate
from agent.indicators.pools import PoolFacts, pool_state
from agent.state import Distribution, RouterState, SystemTtft, TtftParts
from agent.windows.increase import HistogramIncrease, Increase, merged

FAILED = frozenset({"error", "5xx"})
"""Values of a request counter's outcome label that mean a failed request."""
FAILED_CLASS = "5"
LATENCIES = {"ttft": "router_ttft", "e2e": "router_e2e", "itl": "router_itl", "tpot": "router_tpot"}
LENGTHS = {"prompt_tokens": "router_prompt_tokens", "generation_tokens": "router_output_tokens"}


def requests(gained: Increase) -> float | None:
    """Requests that the router counted: its own counter, else those whose whole time it recorded; None for neither."""
    counted = gained.labels("router_requests")
    if counted:
        return sum(counted.values())
    whole = _whole_time(gained)
    return whole.count if whole is not None else None


def errors(gained: Increase) -> float | None:
    """Requests that failed as the router says; None where it does not say."""
    counted = gained.labels("router_errors")
    if counted:
        return sum(counted.values())
    classes = gained.labels("router_responses")
    if classes:
        return classes.get(FAILED_CLASS, 0.0)
    outcomes = gained.labels("router_requests")
    if set(outcomes) - {""}:
        return sum(count for outcome, count in outcomes.items() if outcome in FAILED)
    return None


def router_state(facts: PoolFacts, kind: str | None) -> RouterState:
    """`facts`: the router's targets, as of a pool; `kind`: what their pages are of."""
    total = fresh_total(facts)
    latency = {name: _latency(name, total) for name in LATENCIES}
    counted, failed = requests(total), errors(total)
    rates = [value for gain, seconds in facts.parts() if (value := rate(requests(gain), seconds)) is not None]
    return RouterState(
        kind=kind,
        targets=pool_state(facts).targets,
        requests=None if counted is None else round(counted),
        requests_per_s=sum(rates) if rates else None,
        errors=None if failed is None else round(failed),
        running=_gauge(facts, "router_running"),
        queued=_gauge(facts, "router_queued"),
        latency=latency,
    )


def router_ttft(facts: PoolFacts) -> SystemTtft | None:
    """The user's TTFT as the router measured it; None for a router that does not."""
    histogram = fresh_total(facts).histograms.get("router_ttft")
    if histogram is None:
        return None
    own = distribution("ttft", histogram)
    return SystemTtft(own.status, own.count, own.mean, own.quantiles, "router", TtftParts(None, None))


def as_pool(gained: Increase) -> Increase:
    """The router's numbers in the names that a server's have, for what judges or counts either."""
    found = Increase()
    for name, metric in (LATENCIES | LENGTHS).items():
        histogram = _whole_time(gained) if name == "e2e" else gained.histograms.get(metric)
        if histogram is not None:
            found.histograms[name] = histogram
    counted, failed = requests(gained), errors(gained)
    if counted is not None:
        found.counters["requests_finished", ""] = max(0.0, counted - (failed or 0.0))
    if failed is not None:
        found.counters["requests_finished", "error"] = failed
    return found


def fresh_total(facts: PoolFacts) -> Increase:
    """What the targets gained whose pages are fresh; of a long window, all of it."""
    if facts.long_seconds is not None:
        return facts.total
    return merged(gain for target in facts.targets.values() if target.fresh for gain in target.gained.engines.values())


def _latency(name: str, total: Increase) -> Distribution:
    histogram = _whole_time(total) if name == "e2e" else total.histograms.get(LATENCIES[name])
    return without_numbers("metric_missing") if histogram is None else distribution(name, histogram)


def _whole_time(gained: Increase) -> HistogramIncrease | None:
    histogram = gained.histograms.get("router_e2e")
    if histogram is None and (millis := gained.histograms.get("router_e2e_milliseconds")) is not None:
        edges = tuple(edge / 1e3 for edge in millis.edges)
        return HistogramIncrease(edges, millis.counts, millis.total / 1e3, millis.unsummed, millis.mixed)
    return histogram


def _gauge(facts: PoolFacts, metric: str) -> float | None:
    values: list[Mapping[str, float]] = [
        target.window.gauge(metric) for target in facts.targets.values() if target.fresh
    ]
    known = [value for gauge in values for value in gauge.values()]
    return sum(known) if known else None
