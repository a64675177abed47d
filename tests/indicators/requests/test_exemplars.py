"""Exemplars: each bucket shows its freshest leg, whose value lies in it; memory does not grow with the legs."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.indicators.requests import Exemplars
from agent.indicators.requests.exemplars import KEPT_SECONDS
from agent.windows.span_legs import LegRole, leg_of
from tests.spans import START, decode_span, prefill_span

EDGES = (0.01, 0.1, 0.5, 1.0, 10.0)


def taken(*legs: tuple[float, float], role: LegRole = "decode") -> Exemplars:
    """Legs as (when they ended, TTFT)."""
    kept = Exemplars()
    for number, (at, ttft) in enumerate(legs):
        span = decode_span(f"cmpl-{number}", ttft=ttft)
        kept.take(leg_of(span, role, "decode", "decode-0"), at)
    return kept


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(START, START + KEPT_SECONDS), st.floats(1e-9, 1e9)), max_size=30),
    st.lists(st.floats(1e-4, 1e4), unique=True, max_size=12),
)
def test_an_exemplar_lies_in_its_bucket(legs: list[tuple[float, float]], edges: list[float]) -> None:
    edges.sort()
    shown = taken(*legs).of("decode", "ttft", edges, START + KEPT_SECONDS)
    assert len(shown) == len(edges) + 1
    for exemplar, low, high in zip(shown, [-math.inf, *edges], [*edges, math.inf], strict=True):
        assert exemplar is None or (low < exemplar.value <= high and (exemplar.at, exemplar.value) in legs)
    if legs:
        newest = max(at for at, _ in legs)
        assert newest in {exemplar.at for exemplar in shown if exemplar is not None}


def test_the_freshest_leg_of_a_bucket_is_shown_whatever_the_order_of_arrival() -> None:
    shown = taken((START + 5.0, 0.2), (START + 9.0, 0.3), (START + 1.0, 0.4)).of("decode", "ttft", EDGES, START + 10)
    assert [None if each is None else (each.value, each.request) for each in shown] == [
        None,
        None,
        (0.3, "cmpl-1"),
        None,
        None,
        None,
    ]


def test_what_is_older_than_six_hours_is_not_shown() -> None:
    kept = taken((START, 0.2))
    assert kept.of("decode", "ttft", EDGES, START + KEPT_SECONDS)[2] is not None
    assert kept.of("decode", "ttft", EDGES, START + KEPT_SECONDS + 1.0)[2] is None


def test_a_clock_that_was_set_moves_them_along() -> None:
    kept = taken((START, 0.2))
    kept.shift(3600.0)
    (found,) = [each for each in kept.of("decode", "ttft", EDGES, START + 3600.0) if each is not None]
    assert found.at == START + 3600.0


def test_a_prefill_leg_has_no_time_per_token_and_a_leg_without_trace_is_no_example() -> None:
    kept = Exemplars()
    kept.take(leg_of(prefill_span(), "prefill", "prefill", "prefill-0"), START)
    kept.take(leg_of(decode_span(trace=""), "decode", "decode", "decode-0"), START)
    assert any(kept.of("prefill", "ttft", EDGES, START))
    for pool, latency in (("prefill", "tpot"), ("decode", "ttft"), ("decode", "tpot")):
        assert not any(kept.of(pool, latency, EDGES, START))


def test_ten_thousand_legs_take_the_room_of_a_few_hundred() -> None:
    kept = taken(*((START + number, 1e-6 * 1.003**number) for number in range(10_000)))
    assert sum(len(ranges) for ranges in kept._kept.values()) < 500
