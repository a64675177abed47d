"""What an objective is judged on: spans where they tell of the promised requests, a router where it need not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Config, Contract, Objective, Pool, Router, Target
from agent.indicators.requests.sketch import Sketch
from agent.model import PageObservation, Span
from agent.verdicts.judged_by import Traced, best, covers, share_within
from agent.verdicts.measurement import UNKNOWN, Measurement, Outside, Range
from agent.watch import Watch
from tests.pages import histogram, page
from tests.spans import arrived, decode_span, prefill_span
from tests.verdicts.servers import Server

BEGIN = 1_795_970_000.0
PROMISE = (16384, 262144)
TTFT = Objective(name="ttft", indicator="ttft", scope="system", target=2.5, min_requests=5)
TPOT = Objective(name="tpot", indicator="tpot", scope="decode", target=0.02, min_requests=5)
INF = float("inf")


def sketch(*values: float) -> Sketch:
    made = Sketch()
    for value in values:
        made.add(value)
    return made


def measured(
    mean: float, count: float = 100.0, outside: Outside | None = None, judged_on: str = "leg_means"
) -> Measurement:
    range_ = Range.certain(mean, mean, mean)
    return Measurement("ok", judged_on, count, 5.0, range=range_, outside=outside or Outside(), active=True)


PAGES = measured(3.0)
ROUTER = measured(2.0, judged_on="router")
MAY_BE_OUTSIDE = Outside(0.0, 30.0)


def of(*promised: float, every: int = 100) -> Traced:
    """`every` requests, of which these are promised."""
    return Traced(sketch(*promised, *[9.0] * (every - len(promised))), sketch(*promised))


def chosen(spans: Traced | None, router: Measurement | None, objective: Objective = TTFT) -> Measurement:
    return best(objective, PAGES, spans, router, PROMISE)


def test_a_router_is_judged_on_where_surely_all_of_its_requests_are_promised() -> None:
    assert chosen(of(1.0), ROUTER).judged_on == "router"


def test_spans_win_over_a_router_that_may_have_timed_requests_outside() -> None:
    assert chosen(of(*[1.0] * 70), replace(ROUTER, outside=MAY_BE_OUTSIDE)).judged_on == "traces"
    assert chosen(of(*[1.0] * 70), replace(ROUTER, outside=Outside(known=False))).judged_on == "traces"


def test_without_spans_a_router_is_judged_on_before_two_legs() -> None:
    assert chosen(None, replace(ROUTER, outside=MAY_BE_OUTSIDE)).judged_on == "router"


def test_a_router_that_saw_fewer_than_half_of_the_requests_is_not() -> None:
    assert chosen(None, replace(ROUTER, count=49.0)).judged_on == "leg_means"


def test_a_router_and_spans_are_judged_on_where_the_pages_cannot_be() -> None:
    missing, implausible = Measurement("metric_missing"), replace(PAGES, condition="implausible", range=UNKNOWN)
    assert best(TTFT, missing, None, ROUTER, PROMISE).judged_on == "router"
    assert best(TTFT, missing, of(1.0), None, PROMISE) == missing  # nothing says whether these are all
    assert best(TTFT, implausible, of(*[1.0] * 40), None, PROMISE).judged_on == "traces"
    nowhere = Measurement("not_applicable")
    assert best(TTFT, nowhere, of(1.0), ROUTER, PROMISE) == nowhere


def test_by_spans_only_the_promised_requests_count_and_the_sentence_says_how_many() -> None:
    found = chosen(of(*[1.0] * 40), None)
    assert (found.judged_on, found.count, found.outside) == ("traces", 40, Outside())
    assert found.range.value == pytest.approx(1.0)
    assert found.note == "by request spans, 40 of 100 requests inside 16K-256K prompt tokens"


def test_spans_of_other_requests_or_of_too_few_are_not_judged_on_and_it_is_said() -> None:
    for every, said in ((90, "90.0 %"), (120, "120.0 %")):
        found = chosen(of(*[1.0] * 40, every=every), None)
        assert found.judged_on == "leg_means"
        assert found.note == f"request spans came of {said} of these requests, too unlike to judge by them"


def test_without_a_promised_request_nothing_is_judged_whatever_the_others_had() -> None:
    found = chosen(of(every=100), None)
    assert found.outside == Outside(100, 100)


def test_few_promised_requests_among_many_are_no_collapse_and_few_of_all_may_be() -> None:
    pages = replace(PAGES, live=measured(0.5))
    assert best(TPOT, pages, of(1.0, 1.0), None, PROMISE).live is None
    few = replace(pages, count=3.0)
    assert best(TPOT, few, of(1.0, 1.0, every=3), None, PROMISE).live is not None


def test_coverage_is_within_five_percent_or_one_request() -> None:
    assert [covers(n, 100) for n in (94, 95, 105, 106)] == [False, True, True, False]
    assert [covers(n, 10) for n in (8, 9, 11, 12)] == [False, True, True, False]


@given(st.lists(st.floats(1e-3, 100.0), min_size=1, max_size=60), st.floats(1e-3, 100.0))
def test_the_share_within_a_target_holds_the_true_one(values: list[float], target: float) -> None:
    found = share_within(sketch(*values), target)
    true = sum(value <= target for value in values) / len(values)
    assert found.low - 1e-12 <= true <= found.high + 1e-12


class Deployment:
    """A prefill and a decode server, perhaps a router, and the requests' spans."""

    def __init__(self, router: bool = False, **changed: Any) -> None:
        pools = (
            Pool(name="prefill", role="prefill", targets=(Target("prefill-0"),)),
            Pool(name="decode", role="decode", targets=(Target("decode-0"),)),
        )
        front = Router(kind="dynamo", targets=(Target("router-0"),)) if router else None
        self.watch = Watch(Config(pools=pools, router=front, objectives=(TTFT, TPOT), **changed))
        self.prefill, self.decode = Server(), Server()
        self.routed = 0
        self.routed_seconds = 0.0
        self.now = BEGIN
        self.pages()

    def serve(self, n: int, prompt: int, prefill: float, tpot: float, spans: bool = True, ttft: float = 0.05) -> None:
        """Requests of one kind, each over before the next round of pages."""
        self.prefill.prefilled(prefill, n, prompt)
        self.decode.decoded(tpot, n, prompt=prompt, ttft=ttft)
        self.routed += n
        self.routed_seconds += n * (prefill + ttft)
        for index in range(n if spans else 0):
            name, begin = f"cmpl-{self.now}-{prompt}-{index}", self.now + 0.01 * index
            trace = f"{round(self.now)}-{prompt}-{index}"
            first = prefill_span(name, begin, prefill, trace, prompt)
            second: Span = decode_span(name, begin + prefill, ttft, 51, tpot, trace, prompt)
            self.watch.observe(arrived("prefill-0", first))
            self.watch.observe(arrived("decode-0", second))

    def pages(self) -> None:
        self.now += 15.0
        self.watch.observe(PageObservation(self.now, "prefill-0", self.prefill.page()))
        self.watch.observe(PageObservation(self.now, "decode-0", self.decode.page()))
        if self.watch.config.router is not None:
            counts = {1.0: 0, 2.5: self.routed, INF: self.routed}
            family = histogram("dynamo_frontend_time_to_first_token_seconds", counts, self.routed_seconds, engine=None)
            self.watch.observe(PageObservation(self.now, "router-0", page(family)))
        self.watch.evaluate(self.now)

    def judged(self, name: str) -> tuple[str, str, str]:
        """(verdict, judged on, sentence)."""
        (found,) = (state for state in self.watch.objectives.states(self.now) if state.objective == name)
        return found.verdict, found.judged_on, found.text


def test_short_prompts_that_are_slow_break_no_promise_once_spans_tell_them_apart() -> None:
    with_spans, without = Deployment(), Deployment()
    for deployment, spans in ((with_spans, True), (without, False)):
        for _ in range(4):
            deployment.serve(10, 40_000, 1.5, 0.015, spans)
            deployment.serve(10, 1_000, 6.0, 0.045, spans)
            deployment.pages()
    assert without.judged("tpot")[0] == "undecided"
    word, judged_on, text = with_spans.judged("tpot")
    assert (word, judged_on) == ("met", "traces")
    assert "by request spans, 40 of 80 requests inside 16K-256K prompt tokens" in text
    assert with_spans.judged("ttft")[:2] == ("met", "traces")


def test_long_prompts_that_are_slow_break_it_though_the_mean_of_all_is_fine() -> None:
    deployment = Deployment()
    for _ in range(4):
        deployment.serve(10, 40_000, 4.0, 0.030)
        deployment.serve(30, 1_000, 0.3, 0.010)
        deployment.pages()
    assert deployment.judged("ttft")[:2] == ("breached", "traces")
    assert deployment.judged("tpot")[:2] == ("breached", "traces")


def test_spans_of_a_part_of_the_servers_requests_are_not_judged_on() -> None:
    deployment = Deployment()
    for _ in range(4):
        deployment.serve(10, 40_000, 1.5, 0.015)
        deployment.serve(10, 40_000, 1.5, 0.015, spans=False)
        deployment.pages()
    word, judged_on, text = deployment.judged("tpot")
    assert (word, judged_on) == ("met", "request_mean")
    assert "request spans came of 50.0 % of these requests" in text


def test_the_systems_ttft_is_the_routers_where_one_is_configured() -> None:
    deployment = Deployment(router=True, contract=Contract((1, 1_000_000)))
    for _ in range(4):
        deployment.serve(10, 40_000, 1.5, 0.015)
        deployment.pages()
    word, judged_on, text = deployment.judged("ttft")
    assert (word, judged_on) == ("met", "router")
    assert "1.55 s over 40 requests" in text
