"""Counts, means, tokens and drafts of random fleets: the engine against the slow calculator.

PDWATCH_PROPERTY_EXAMPLES=2000 looks at more fleets than the usual few.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.config import config_from_names
from agent.model import FailureObservation, PageObservation
from agent.state import Distribution
from agent.watch import Watch
from tests.property.calculator import Stretch, covered_seconds, mean, stretches, within
from tests.property.fleets import BEGAN, EVERY_SECONDS, Request, Turn, pages_of, turns

EXAMPLES = int(os.environ.get("PDWATCH_PROPERTY_EXAMPLES", "25"))
ENGINES = {"prefill-0": 1, "decode-0": 2, "decode-1": 1}

Fleet = dict[str, list[Turn]]


def watched(fleet: Fleet) -> Watch:
    watch = Watch(config_from_names(set(ENGINES)))
    shown = {target: pages_of(lived, ENGINES[target]) for target, lived in fleet.items()}
    for number in range(max(map(len, shown.values()))):
        t = BEGAN + EVERY_SECONDS * number
        for target, pages in shown.items():
            if number < len(pages):
                text = pages[number]
                lost = FailureObservation(t, target, "timeout")
                watch.observe(lost if text is None else PageObservation(t, target, text))
    return watch


def agree(found: Distribution, wanted: list[float]) -> None:
    assert (found.count or 0) == len(wanted)
    expected = mean(wanted)
    assert found.mean == (None if expected is None else pytest.approx(expected, rel=1e-9))


# Not shrunk: that takes minutes with whole fleets, and the drawn one tells as much.
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    st.fixed_dictionaries({target: turns(engines) for target, engines in ENGINES.items()}),
    st.integers(-1, 8),
    st.integers(1, 12),
)
def test_a_fleet_is_counted_as_the_slow_calculator_counts_it(fleet: Fleet, first: int, length: int) -> None:
    since, until = BEGAN + EVERY_SECONDS * first + 1.0, BEGAN + EVERY_SECONDS * (first + length) + 1.0
    state = watched(fleet).state(until, since=since)
    known: dict[str, list[Stretch]] = {target: stretches(lived, ENGINES[target]) for target, lived in fleet.items()}

    def of(pool: str) -> list[Request]:
        return [
            request for target in known if target.startswith(pool) for request in within(known[target], since, until)
        ]

    prefill, decode = of("prefill"), of("decode")
    legs, latency = state.pools["prefill"].latency, state.pools["decode"].latency
    agree(legs["ttft"], [request.ttft for request in prefill])
    agree(legs["e2e"], [request.values()["vllm:e2e_request_latency_seconds"] for request in prefill])
    agree(latency["ttft"], [request.ttft for request in decode])
    agree(latency["tpot"], [request.tpot for request in decode if request.tokens > 1])
    assert legs["tpot"].status == "not_applicable"
    if prefill and decode:
        ended = mean([request.values()["vllm:e2e_request_latency_seconds"] for request in prefill])
        begun = mean([request.ttft for request in decode])
        assert ended is not None
        assert begun is not None
        assert state.system.ttft.mean == pytest.approx(ended + begun, rel=1e-9)
    drafted = state.pools["decode"].speculation
    if drafted is not None:
        assert drafted.drafts == sum(request.drafts for request in decode)
        assert drafted.draft_tokens == sum(3 * request.drafts for request in decode)
        assert drafted.accepted_tokens == sum(request.accepted for request in decode)
    else:
        assert decode == []
    _rates_agree(state.pools["decode"].throughput.generation_tokens_per_s, fleet, known, since, until)


def _rates_agree(
    found: float | None, fleet: Fleet, known: dict[str, list[Stretch]], since: float, until: float
) -> None:
    """A pool's rate is the sum of its targets', each over the time between its own pages."""
    wanted, watched_at_all = 0.0, False
    for target in ("decode-0", "decode-1"):
        seconds = covered_seconds(fleet[target], since, until)
        if seconds > 0:
            watched_at_all = True
            wanted += sum(request.tokens for request in within(known[target], since, until)) / seconds
    assert found == (pytest.approx(wanted, rel=1e-9) if watched_at_all else None)
