"""Pools and histories built by hand, for the tests of rules that look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.indicators.pools import PoolFacts, TargetFacts, pool_facts
from agent.model import HistogramKey, Reading, Role, SeriesKey
from agent.windows.history import PoolHistory
from agent.windows.increase import GaugeIntegral, HistogramIncrease, Increase
from agent.windows.target import TargetWindow
from tests.readings import layout

ITL_EDGES = (0.01, 0.025, 0.05, 0.1)
ENGINE = layout(
    [
        SeriesKey("0", "generation_tokens"),
        SeriesKey("0", "prompt_tokens"),
    ],
    [
        HistogramKey(SeriesKey("0", "ttft"), (1.0,)),
        HistogramKey(SeriesKey("0", "kv_transfer_time"), (1.0,)),
    ],
    [
        SeriesKey("0", "running"),
        SeriesKey("0", "waiting"),
        SeriesKey("0", "waiting_by_reason", "capacity"),
        SeriesKey("0", "waiting_by_reason", "deferred"),
        SeriesKey("0", "kv_usage"),
    ],
)


def pool_of(readings: Sequence[Reading], role: Role = "decode", name: str = "decode") -> PoolFacts:
    """A pool of one target that has shown these pages; the window is all of them."""
    window = TargetWindow(retain_seconds=10_000.0)
    for reading in readings:
        window.take(reading)
    last = readings[-1].t
    target = TargetFacts(window, window.increases(readings[0].t - 1, last), True, 0.0, ())
    return pool_facts(name, role, None, {readings[0].target: target})


def decoded(
    steps: float = 6000,
    step_seconds: float = 0.02,
    tokens_per_step: float = 1.0,
    running: float = 20.0,
    kv_usage: float = 0.4,
    preemptions: float = 0.0,
    begun: float = 100.0,
    prompt_tokens: float = 32_000.0,
    gauges: Mapping[tuple[str, str], float] | None = None,
) -> Increase:
    """A minute (or any stretch) of decoding with these means."""
    known = {("running", ""): running, ("kv_usage", ""): kv_usage, **(gauges or {})}
    itl = HistogramIncrease(ITL_EDGES, [0.0, steps, 0.0, 0.0, 0.0], total=steps * step_seconds)
    return Increase(
        {
            ("generation_tokens", ""): steps * tokens_per_step + begun,
            ("preemptions", ""): preemptions,
            ("requests_finished", "length"): 10.0,
        },
        {
            "itl": itl,
            "ttft": HistogramIncrease((1.0,), [begun, 0.0], total=0.5 * begun),
            "prompt_tokens": HistogramIncrease((50_000.0,), [begun, 0.0], total=begun * prompt_tokens),
        },
        {key: GaugeIntegral(60.0 * value, 60.0) for key, value in known.items()},
    )


def history_of(minutes: Sequence[Increase], end: float) -> PoolHistory:
    """A pool's history whose last minute ends at `end` (a multiple of 60)."""
    history = PoolHistory()
    begin = end - 60.0 * len(minutes)
    history.began, history.last_end = begin, end
    for index, gain in enumerate(minutes):
        for tier in (history.fine, history.coarse):
            tier.slot(begin + 60.0 * index).settled.add(gain)
    return history


def pool_with(gain: Increase, role: Role = "decode", name: str = "decode") -> PoolFacts:
    """A pool whose window gained this, without targets."""
    return PoolFacts(name, role, None, {}, gain)
