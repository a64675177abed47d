"""Spans of a deployment come in; what users waited, by length, by place, within the contract, comes out."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.config import Config, Contract, Objective, Pool, Target
from agent.errors import StateError
from agent.indicators.requests import Requests
from agent.indicators.requests.requests import MOST_PAIRS
from agent.indicators.requests.samples import band_of
from agent.indicators.requests.view import trace_link
from agent.model import Span
from tests.spans import START, arrived, decode_span, prefill_span

CONFIG = Config(
    pools=(
        Pool("prefill", "prefill", (Target("prefill-0"), Target("prefill-1"))),
        Pool("decode", "decode", (Target("decode-0"),)),
    ),
    contract=Contract((16384, 262144)),
    objectives=(
        Objective("ttft", "system", 2.5, window_seconds=300.0),
        Objective("tpot", "decode", 0.020, window_seconds=300.0),
    ),
)


def request(
    requests: Requests,
    number: int,
    *,
    at: float = START,
    ttft: float = 0.5,
    prompt_tokens: int = 20_000,
    tpot: float = 0.01,
    prefill: str = "prefill-0",
) -> tuple[Span, Span]:
    """One request of 1.25 s + `ttft`, seen by both of its servers."""
    name, trace = f"cmpl-{number}-0", f"{number + 1:032x}"
    first = prefill_span(name, at, trace=trace, prompt_tokens=prompt_tokens)
    second = decode_span(name, at + 1.25, ttft, tpot=tpot, trace=trace, prompt_tokens=prompt_tokens)
    requests.take(arrived(prefill, first))
    requests.take(arrived("decode-0", second))
    return first, second


def test_the_system_and_its_pools_have_exact_means_and_close_quantiles():
    requests = Requests(CONFIG)
    for number in range(1, 101):
        request(requests, number, ttft=0.01 * number, at=START + number)
    view = requests.system(START, START + 200.0)
    ttft = view.ttft()
    assert (ttft.status, ttft.source, ttft.count) == ("ok", "traces", 100)
    assert ttft.mean == pytest.approx(1.25 + 0.505)
    for name, true in (("0.5", 1.75), ("0.9", 2.15), ("0.99", 2.24)):
        found = ttft.quantiles[name]
        assert found is not None
        assert found.value == pytest.approx(true, rel=0.005)
    assert view.tpot().mean == pytest.approx(0.01)
    assert view.pool("decode")["ttft"].mean == pytest.approx(0.505)
    assert view.pool("prefill")["e2e"].mean == pytest.approx(1.0)
    assert view.pool("prefill")["tpot"].count == 0
    assert sum(part.mean or 0.0 for name, part in view.parts().items() if name != "e2e") == pytest.approx(ttft.mean)
    system = view.system_ttft()
    assert system.source == "traces"
    assert (system.parts.prefill_leg, system.parts.kv_and_decode_leg) == pytest.approx((1.0, 0.25 + 0.505))


def test_only_prompts_inside_the_contract_count_where_it_is_asked_for():
    requests = Requests(CONFIG)
    for number, length in enumerate((16383, 16384, 262144, 262145)):
        request(requests, number, prompt_tokens=length, ttft=float(number), tpot=0.01 * (number + 1))
    view = requests.system(START, START + 100.0)
    assert view.ttft().count == 4
    assert view.ttft(contract=True).mean == pytest.approx(1.25 + 1.5)
    assert view.tpot(contract=True).mean == pytest.approx(0.025)
    assert view.pool("decode", contract=True)["tpot"].mean == pytest.approx(0.025)
    assert view.pool("decode")["tpot"].count == 4


def test_bands_end_with_the_length_that_names_them():
    requests = Requests(CONFIG)
    for number, length in enumerate((1, 16384, 16385, 32768, 131073, 262144, 300000)):
        request(requests, number, prompt_tokens=length)
    bands = requests.system(START, START + 100.0).bands()
    assert [(band.low, band.high, band.count) for band in bands] == [
        (1, 16384, 2),
        (16385, 32768, 2),
        (131073, 262144, 2),
        (262145, None, 1),
    ]
    assert band_of(None) is None


def test_a_request_of_unknown_length_is_in_no_band_and_under_no_promise():
    requests = Requests(CONFIG)
    requests.take(arrived("prefill-0", replace(prefill_span(), prompt_tokens=None)))
    requests.take(arrived("decode-0", replace(decode_span(), prompt_tokens=None)))
    view = requests.system(START, START + 100.0)
    assert view.ttft().count == 1
    assert view.ttft(contract=True).count == 0
    assert view.bands() == ()


def test_each_pair_of_servers_is_told_apart():
    requests = Requests(CONFIG)
    request(requests, 1)
    request(requests, 2)
    request(requests, 3, prefill="prefill-1", ttft=2.0)
    pairs = requests.system(START, START + 100.0).pairs()
    assert [(pair.prefill, pair.decode, pair.count) for pair in pairs] == [
        ("prefill-0", "decode-0", 2),
        ("prefill-1", "decode-0", 1),
    ]
    assert pairs[1].ttft.mean == pytest.approx(3.25)
    assert pairs[1].kv_wait_mean == pytest.approx(1.0)
    assert pairs[1].handover_mean == pytest.approx(0.25)


def test_more_pairs_than_are_kept_become_one():
    targets = tuple(Target(f"prefill-{number}") for number in range(MOST_PAIRS + 5))
    pools = (Pool("prefill", "prefill", targets), *CONFIG.pools[1:])
    requests = Requests(replace(CONFIG, pools=pools))
    for number, target in enumerate(targets):
        request(requests, number, prefill=target.name, at=START + 0.01 * number)
    pairs = requests.system(START, START + 100.0).pairs()
    assert ("other", "other", 5) in [(pair.prefill, pair.decode, pair.count) for pair in pairs]


def test_the_slowest_come_first_with_their_parts_and_a_link():
    requests = Requests(CONFIG)
    for number in range(50):
        request(requests, number, ttft=0.1 + 0.1 * ((number * 7) % 50), at=START + number)
    slowest = requests.system(START, START + 200.0).slowest("https://jaeger.example/trace/{trace}?id={request}")
    assert [round(each.ttft_s - 1.25, 1) for each in slowest[:3]] == [5.0, 4.9, 4.8]
    assert len(slowest) == 20
    assert slowest[0].link == f"https://jaeger.example/trace/{slowest[0].trace}?id={slowest[0].request}"
    assert slowest[0].parts["kv_wait"] == pytest.approx(2.5)


def test_ids_cannot_leave_their_place_in_a_link():
    link = trace_link("https://x/{trace}?q={request}#{trace}", "a/..", 'é"&y={trace}')
    assert link == "https://x/a%2F..?q=%C3%A9%22%26y%3D%7Btrace%7D#a%2F.."


def test_a_span_that_is_sent_twice_counts_once():
    requests = Requests(CONFIG)
    first, second = request(requests, 1)
    requests.take(arrived("prefill-0", first))
    requests.take(arrived("decode-0", second))
    view = requests.system(START, START + 100.0)
    assert (view.ttft().count, view.pool("decode")["ttft"].count, view.pool("prefill")["ttft"].count) == (1, 1, 1)
    assert requests.counts()["duplicates"] == 2


def test_a_correction_takes_the_place_of_what_was_said_before():
    requests = Requests(CONFIG)
    name = "cmpl-1-0"
    requests.take(arrived("prefill-1", prefill_span(name, START + 3.0)))
    requests.take(arrived("decode-0", decode_span(name, START + 4.25)))
    requests.take(arrived("prefill-0", prefill_span(name, START)))
    view = requests.system(START, START + 100.0)
    assert view.ttft().count == 1
    assert view.ttft().mean == pytest.approx(4.75)
    assert [each.ttft_s for each in view.slowest()] == pytest.approx([4.75])
    assert [pair.count for pair in view.pairs()] == [1]


def test_what_failed_is_counted_and_in_no_number():
    requests = Requests(CONFIG)
    request(requests, 1)
    broken = replace(decode_span("cmpl-2-0"), completion_tokens=0, queue_seconds=-900.0, prefill_seconds=920.0)
    requests.take(arrived("decode-0", broken))
    view = requests.system(START, START + 100.0)
    assert view.pool("decode")["queue"].count == 1
    assert view.pool("decode")["prefill"].mean == pytest.approx(0.125)
    assert requests.counts()["failed_decode"] == 1
    assert dict(requests.faults) == {"no_tokens": 1}


def test_spans_of_a_server_that_is_not_watched_are_counted_by_name_within_bounds():
    requests = Requests(CONFIG)
    for number in range(200):
        requests.take(arrived(f"stranger-{number}", prefill_span()))
    assert len(requests.unknown_targets) == 100
    assert requests.system(START, START + 100.0).ttft().status == "no_data"


def test_a_pools_name_stands_for_a_target_that_is_not_told():
    requests = Requests(CONFIG)
    requests.take(arrived("prefill", prefill_span()))
    requests.take(arrived("decode", decode_span()))
    (pair,) = requests.system(START, START + 100.0).pairs()
    assert (pair.prefill, pair.decode) == ("prefill", "decode")


def test_the_share_served_as_promised_needs_both_ttft_and_tpot():
    requests = Requests(CONFIG)
    request(requests, 1, ttft=1.0, tpot=0.015)
    request(requests, 2, ttft=1.0, tpot=0.025)
    request(requests, 3, ttft=2.0, tpot=0.015)
    request(requests, 4, ttft=1.0, tpot=0.015)
    request(requests, 5, ttft=9.0, tpot=0.9, prompt_tokens=100)
    view = requests.system(START, START + 200.0)
    assert view.met_share() == pytest.approx(0.5)
    assert view.met_share(contract=False) == pytest.approx(0.4)
    assert view.met_tokens() == 202


def test_a_server_whose_clock_is_hours_off_is_counted_when_its_spans_arrive():
    requests = Requests(CONFIG)
    ahead = 7200.0
    requests.take(replace(arrived("prefill-0", prefill_span(start=START + ahead)), t=START + 3.0))
    requests.take(replace(arrived("decode-0", decode_span(start=START + ahead + 1.25)), t=START + 8.0))
    assert requests.system(START, START + 60.0).ttft().count == 1


def test_what_was_said_survives_a_restart():
    requests = Requests(CONFIG)
    for number in range(40):
        request(requests, number, at=START + 30.0 * number, ttft=0.1 * number)
    documents: dict[str, Any] = dict(requests.save())
    again = Requests(CONFIG)
    again.restore(json.loads(json.dumps(documents)))
    begin, end = START - START % 300.0, START - START % 300.0 + 2400.0
    before, after = requests.system(begin, end), again.system(begin, end)
    assert after.ttft() == before.ttft()
    assert after.parts() == before.parts()
    assert after.bands() == before.bands()
    assert after.slowest() == before.slowest()
    assert after.ttft().count == 40
    assert list(requests.save()) == []
    assert not any(again.obsolete(key) for key in documents)
    assert again.obsolete("requests/slot/10/1000")
    assert not again.obsolete("windows/pool/decode")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"version": 99},
        {"version": 1, "start": 7.0, "width": 10.0, "sums": [], "slowest": []},
        {"version": 1, "start": 10.0, "width": 10.0, "sums": [[["nothing"], []]], "slowest": []},
        {"version": 1, "start": 10.0, "width": 10.0, "sums": [[["pool", "decode"], [None] * 6]], "slowest": []},
        {"version": 1, "start": 10.0, "width": 10.0, "sums": [], "slowest": [[1, 2, 3]]},
    ],
)
def test_damaged_history_is_refused_as_such(document: dict[str, Any]):
    with pytest.raises(StateError):
        Requests(CONFIG).restore({"requests/slot/10/10": document})


def test_a_clock_that_is_set_moves_what_is_waiting_and_what_is_known():
    requests = Requests(CONFIG)
    request(requests, 1)
    requests.take(arrived("prefill-0", prefill_span("cmpl-9-0", trace="")))
    requests.shift(-7200.0)
    assert requests.system(START - 7200.0, START - 7100.0).ttft().count == 1
    requests.system(START - 7200.0, START - 7100.0)
    assert requests.counts()["waiting"] == 1
    requests.system(START - 7200.0, START - 3000.0)
    assert requests.counts()["waiting"] == 0
