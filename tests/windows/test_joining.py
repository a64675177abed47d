"""Legs become requests: whatever order they come in, whatever is missing, doubled, retried or broken."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import Span
from agent.windows.joined_request import Request
from agent.windows.joining import Joined, Joining, JoiningLimits
from agent.windows.span_legs import LegRole, fault_of, leg_of, request_core
from tests.spans import START, decode_span, prefill_span

OTHER_TRACE = "f" * 32


class Fleet:
    """Two pools whose spans arrive as soon as they end, unless a test says when."""

    def __init__(self, joining: Joining | None = None) -> None:
        self.joining = joining or Joining()
        self.given: list[Joined] = []

    def take(self, role: LegRole, span: Span, target: str, now: float | None = None) -> None:
        leg = leg_of(span, role, f"{role}-pool", target)
        joined = self.joining.take(leg, span.end, span.end if now is None else now)
        if joined is not None:
            self.given.append(joined)

    def prefill(self, span: Span, target: str = "prefill-0", now: float | None = None) -> None:
        self.take("prefill", span, target, now)

    def decode(self, span: Span, target: str = "decode-0", now: float | None = None) -> None:
        self.take("decode", span, target, now)

    @property
    def only(self) -> Request:
        """The one request that was given out, as it was last given out."""
        assert len({joined.request.request for joined in self.given}) == 1
        return self.given[-1].request

    def counted(self, **expected: int) -> None:
        assert {name: count for name, count in self.joining.counts.as_mapping().items() if count} == expected


def test_ttft_is_prefill_leg_plus_gap_plus_the_decode_legs_ttft_and_the_parts_add_up_to_it():
    fleet = Fleet()
    fleet.prefill(prefill_span(e2e=1.0))
    fleet.decode(decode_span(start=START + 1.25, ttft=0.5, tokens=101, tpot=0.02))
    request = fleet.only
    assert request.ttft_seconds == pytest.approx(1.0 + 0.25 + 0.5)
    assert request.parts == pytest.approx((0.0, 0.1, 0.5, 0.25, 0.25, 0.125, 0.525))
    assert sum(part for part in request.parts if part is not None) == pytest.approx(request.ttft_seconds)
    assert request.tpot_seconds == pytest.approx(0.02)
    assert request.e2e_seconds == pytest.approx(1.75 + 2.0)
    assert (request.prefill, request.decode) == ("prefill-0", "decode-0")
    fleet.counted(joined=1)


def test_a_decode_leg_that_arrives_first_waits_for_its_prefill_leg():
    fleet = Fleet()
    fleet.decode(decode_span())
    assert fleet.given == []
    fleet.prefill(prefill_span(), now=START + 9.0)
    assert fleet.only.ttft_seconds == pytest.approx(1.75)
    fleet.counted(joined=1)


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [
        pytest.param({}, {}, id="both"),
        pytest.param({"trace": OTHER_TRACE}, {}, id="the request id, when the proxy forwards no trace headers"),
        pytest.param({"trace": ""}, {"trace": ""}, id="the request id, without any trace"),
        pytest.param({"request": "cmpl-x-0"}, {"request": "cmpl-y-0"}, id="the trace, when each leg has its own id"),
        pytest.param({"request": "chatcmpl-a"}, {"request": "cmpl-a"}, id="the id behind the endpoint's prefix"),
    ],
)
def test_legs_are_joined_by(prefill: dict[str, Any], decode: dict[str, Any]):
    fleet = Fleet()
    fleet.prefill(prefill_span(**prefill))
    fleet.decode(decode_span(**decode))
    assert fleet.only.ttft_seconds == pytest.approx(1.75)


def test_legs_with_different_prompts_are_never_joined_though_a_whole_conversation_has_one_trace():
    fleet = Fleet()
    fleet.prefill(prefill_span(request="cmpl-1-0", prompt_tokens=1000))
    fleet.prefill(prefill_span(request="cmpl-2-0", prompt_tokens=2000, start=START + 0.5))
    fleet.decode(decode_span(request="cmpl-9-0", prompt_tokens=1000, start=START + 1.6))
    assert fleet.only.prompt_tokens == 1000
    assert fleet.only.ttft_seconds == pytest.approx(1.6 + 0.5)


def test_a_request_id_that_is_used_again_an_hour_later_is_another_request():
    fleet = Fleet()
    fleet.prefill(prefill_span())
    later = START + 3000.0
    fleet.prefill(prefill_span(start=later))
    fleet.decode(decode_span(start=later + 1.0))
    assert fleet.only.ttft_seconds == pytest.approx(1.5)
    assert fleet.only.attempts == 1


def test_a_request_id_that_every_request_has_joins_each_with_the_prefill_leg_just_before_it():
    fleet = Fleet()
    for number in range(5):
        begin = START + 10.0 * number
        fleet.prefill(prefill_span(request="cmpl-test-0", start=begin, trace=""))
        fleet.decode(decode_span(request="cmpl-test-0", start=begin + 1.0, trace=""))
    assert [joined.request.ttft_seconds for joined in fleet.given] == pytest.approx([1.5] * 5)
    fleet.counted(joined=5)


def test_a_retried_prefill_counts_from_the_first_attempt_and_says_where_the_time_went():
    fleet = Fleet()
    fleet.prefill(prefill_span(start=START))
    fleet.prefill(prefill_span(start=START + 3.0), "prefill-1")
    fleet.decode(decode_span(start=START + 4.1))
    request = fleet.only
    assert request.ttft_seconds == pytest.approx(4.6)
    assert request.parts.retries == pytest.approx(3.0)
    assert (request.prefill, request.attempts) == ("prefill-1", 2)
    fleet.counted(joined=1, retried=1)


def test_an_earlier_attempt_that_arrives_last_corrects_the_request():
    fleet = Fleet()
    fleet.prefill(prefill_span(start=START + 3.0), "prefill-1")
    fleet.decode(decode_span(start=START + 4.1))
    fleet.prefill(prefill_span(start=START), "prefill-0", now=START + 12.0)
    first, second = fleet.given
    assert first.request.ttft_seconds == pytest.approx(1.6)
    assert second.instead_of == first.request
    assert second.request.ttft_seconds == pytest.approx(4.6)
    fleet.counted(joined=1, retried=1, corrected=1)


def test_a_failed_attempt_at_prefill_lengthens_the_wait_but_feeds_nothing():
    fleet = Fleet()
    fleet.prefill(replace(prefill_span(), completion_tokens=0))
    fleet.prefill(prefill_span(start=START + 2.0), "prefill-1")
    fleet.decode(decode_span(start=START + 3.0))
    assert fleet.only.prefill == "prefill-1"
    assert fleet.only.ttft_seconds == pytest.approx(3.5)


def test_a_decode_leg_that_failed_joins_nothing_and_the_one_that_is_tried_after_it_does():
    fleet = Fleet()
    fleet.prefill(prefill_span())
    fleet.decode(replace(decode_span(), completion_tokens=0, queue_seconds=-889.7, prefill_seconds=920.0))
    assert fleet.given == []
    fleet.decode(decode_span(start=START + 2.0), "decode-1")
    assert fleet.only.parts.handover == pytest.approx(1.0)
    fleet.counted(joined=1, failed_decode=1)


def test_legs_that_wait_in_vain_are_counted_and_forgotten():
    fleet = Fleet()
    fleet.prefill(prefill_span("cmpl-1-0", trace=""))
    fleet.prefill(prefill_span("cmpl-2-0", trace=""))
    fleet.decode(decode_span("cmpl-3-0", trace=""))
    fleet.decode(replace(decode_span("cmpl-2-0", trace=""), completion_tokens=0))
    fleet.joining.expire(START + 200.0)
    fleet.counted(failed_decode=1, unmatched_decode=1)
    fleet.joining.expire(START + 4000.0)
    fleet.counted(failed_decode=1, unmatched_decode=1, unmatched_prefill=1, left_unserved=1)
    assert fleet.joining.waiting == 0


def test_several_answers_to_one_prompt_are_one_request_of_the_user():
    fleet = Fleet()
    fleet.prefill(prefill_span())
    fleet.decode(decode_span(tokens=50))
    fleet.decode(decode_span(tokens=80))
    assert len(fleet.given) == 1
    fleet.counted(joined=1, extra_decode=1)


def test_a_negative_hand_over_is_two_clocks_and_counts_as_none():
    fleet = Fleet()
    fleet.prefill(prefill_span())
    fleet.decode(decode_span(start=START + 0.7))
    assert fleet.only.skewed
    assert fleet.only.parts.handover == 0.0
    assert fleet.only.ttft_seconds == pytest.approx(1.5)
    fleet.counted(joined=1, skewed=1)


def test_with_concurrent_dispatch_the_user_waits_from_the_earlier_arrival_to_decodes_first_token():
    fleet = Fleet(Joining("concurrent"))
    fleet.decode(decode_span(start=START - 0.01, ttft=1.4))
    fleet.prefill(prefill_span())
    request = fleet.only
    assert request.ttft_seconds == pytest.approx(1.4)
    assert not request.skewed
    assert sum(part for part in request.parts if part is not None) == pytest.approx(1.4)
    assert request.parts.kv_wait == 0.0  # all of decode's queue was prefill at work


def test_a_co_located_server_serves_a_request_alone():
    fleet = Fleet()
    fleet.take("both", decode_span(ttft=0.5), "server-0")
    assert fleet.only.ttft_seconds == 0.5
    assert fleet.only.prefill == ""
    assert sum(part for part in fleet.only.parts if part is not None) == pytest.approx(0.5)


def test_a_decode_leg_without_its_ttft_is_counted_and_gives_no_number():
    fleet = Fleet()
    fleet.prefill(prefill_span())
    fleet.decode(replace(decode_span(), ttft_seconds=None))
    assert fleet.given == []
    fleet.counted(unsaid=1)


def test_what_a_server_does_not_say_is_unknown_and_not_zero():
    fleet = Fleet()
    fleet.prefill(prefill_span())
    fleet.decode(replace(decode_span(), queue_seconds=None, decode_seconds=None))
    assert fleet.only.ttft_seconds == pytest.approx(1.75)
    assert fleet.only.tpot_seconds is None
    assert fleet.only.parts.kv_wait is None
    assert fleet.only.parts.rest is None


def test_memory_is_bounded_in_legs_that_wait():
    fleet = Fleet(Joining(limits=JoiningLimits(waiting=10, done=5)))
    for number in range(100):
        fleet.prefill(prefill_span(f"cmpl-{number}-0", trace=f"{number:032x}"))
    assert fleet.joining.waiting == 10
    fleet.counted(dropped=90)
    for number in range(90, 100):
        fleet.decode(decode_span(f"cmpl-{number}-0", trace=f"{number:032x}"))
    fleet.joining.expire(START + 2.0)
    fleet.counted(dropped=90, joined=10)
    assert len(fleet.joining._index) == 2 * 5  # the five that are still remembered, by trace and by id


def test_one_trace_for_everything_costs_no_more_than_any_other():
    fleet = Fleet()
    for number in range(2000):
        fleet.prefill(prefill_span(f"cmpl-{number}-0", prompt_tokens=number + 1))
    looked_at = fleet.joining._index.like(prefill_span().trace, "cmpl-none")
    assert len(looked_at) == 64
    fleet.decode(decode_span("cmpl-3-0", prompt_tokens=4))
    assert fleet.only.prompt_tokens == 4


@given(seed=st.integers(0, 2**32), requests=st.integers(1, 30))
def test_any_order_of_arrival_gives_the_same_requests(seed: int, requests: int):
    chance = random.Random(seed)
    legs: list[tuple[LegRole, Span]] = []
    wanted = {}
    for number in range(requests):
        name, trace = f"cmpl-{number}-0", f"{number:032x}"
        begin, ttft = START + chance.uniform(0, 20), chance.uniform(0.01, 3)
        handed = begin + 1.0 + chance.uniform(0.001, 2)
        legs.append(("prefill", prefill_span(name, begin, trace=trace)))
        legs.append(("decode", decode_span(name, handed, ttft, trace=trace)))
        wanted[name] = handed + ttft - begin
    chance.shuffle(legs)
    fleet = Fleet()
    for role, span in legs:
        fleet.take(role, span, f"{role}-0", now=START + 30.0)
    assert {joined.request.request: joined.request.ttft_seconds for joined in fleet.given} == pytest.approx(wanted)
    fleet.counted(joined=requests)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"completion_tokens": None}, None),
        ({"completion_tokens": 0}, "no_tokens"),
        ({"queue_seconds": -889.7}, "negative_time"),
        ({"ttft_seconds": -0.1}, "negative_time"),
        ({"end": START - 5.0}, "negative_time"),
        ({"prefill_seconds": 2_600_000.0}, "longer_than_the_request"),
        ({"ttft_seconds": 900.0}, "longer_than_the_request"),
    ],
)
def test_what_a_failure_leaves_behind_is_recognised(changes: dict[str, Any], fault: str | None):
    assert fault_of(replace(decode_span(), **changes)) == fault


def test_the_core_of_a_request_id_is_what_the_proxy_sent():
    assert request_core("cmpl-req-1-0") == "req-1-0"
    assert request_core("chatcmpl-req-1") == "req-1"
    assert request_core("req-1") == "req-1"
