"""Numbers, tables, events and logs: what people read."""

import logging
from dataclasses import replace
from typing import Literal

import pytest

from agent.outputs import numbers
from agent.outputs.defects import Defects
from agent.outputs.events import Changes, EventLog
from agent.outputs.table import state_table
from agent.state import ProblemState, Quantile, State, VerdictState
from tests.outputs import fleet


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.0173, "17.3 ms"),
        (2.41, "2.41 s"),
        (1e-5, "10 µs"),
        (0.9999, "1 s"),
        (192.0, "3.2 min"),
    ],
)
def test_seconds_have_the_unit_that_keeps_them_readable(value: float | None, text: str) -> None:
    assert numbers.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0, "0 B"), (2**30, "1 GiB"), (5e6, "4.77 MiB"), (2.0**50, "1024 TiB")]
)
def test_sizes_are_in_powers_of_1024(value: float | None, text: str) -> None:
    assert numbers.size(value) == text


def test_unknown_is_a_dash_everywhere_and_never_zero() -> None:
    assert {numbers.count(None), numbers.per_second(None), numbers.share(None), numbers.quantile(None)} == {"–"}


def test_a_quantile_above_the_top_edge_is_more_than_that_edge() -> None:
    assert numbers.quantile(Quantile(80.0, 80.0, None)) == "> 80 s"
    assert numbers.quantile(Quantile(0.02, 0.01, 0.025)) == "20 ms (10 ms to 25 ms)"


def test_the_table_says_the_numbers_of_each_pool_and_what_is_wrong() -> None:
    text = state_table(fleet.live().state())
    for expected in (
        "over 5 min",
        "TTFT mean 2 s",
        "pool decode (decode), 1 of 1 target up",
        "length 2.000",
        "kv_expired",
    ):
        assert expected in text


def test_the_table_stands_before_anything_is_known() -> None:
    assert "None" not in state_table(fleet.live(rounds=0).state())


PROBLEM = ProblemState("kv_expired", None, 10.0, "1 KV lease ran out", "warning", pool="prefill")


def with_problems(t: float, *problems: ProblemState) -> State:
    return replace(fleet.live(rounds=0).state(), at=t, problems=problems, verdicts=())


def with_verdict(t: float, verdict: VerdictState) -> State:
    return replace(fleet.live(rounds=0).state(), at=t, problems=(), verdicts=(verdict,))


Word = Literal["met", "breached"]
Status = Literal["ok", "pending", "firing", "resolved"]
VERDICT = VerdictState("tpot", "decode", "met", "ok", None, "request_mean", 0.018, 0.018, 0.018, 0.02, 412)


def test_a_verdict_is_told_when_it_changes_and_a_page_when_its_incident_begins_and_ends() -> None:
    changes = Changes()
    walk: list[tuple[Word, Status]] = [
        ("met", "ok"),
        ("met", "ok"),
        ("breached", "pending"),
        ("breached", "firing"),
        ("met", "firing"),
        ("met", "resolved"),
    ]
    told = []
    for t, (word, status) in enumerate(walk):
        verdict = replace(VERDICT, verdict=word, status=status)
        told += [
            (t, line["kind"], line["status"]) for line in (e.line() for e in changes.take(with_verdict(t, verdict)))
        ]
    assert told == [
        (0, "verdict", "ok"),
        (2, "verdict", "pending"),
        (3, "verdict", "firing"),
        (3, "page", "firing"),
        (4, "verdict", "firing"),
        (5, "verdict", "resolved"),
        (5, "page", "resolved"),
    ]


def test_only_a_page_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    changes, log = Changes(), EventLog()
    log.write(changes.take(with_verdict(1, VERDICT)))
    log.write(
        changes.take(with_verdict(2, replace(VERDICT, verdict="breached", status="firing", text="23 ms > 20 ms")))
    )
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "verdict: tpot of decode is met, ok"),
        ("INFO", "verdict: tpot of decode is breached, firing: 23 ms > 20 ms"),
        ("ERROR", "page: tpot of decode is breached, firing: 23 ms > 20 ms"),
    ]


def test_a_problem_is_told_when_it_begins_and_when_it_ends_and_not_in_between() -> None:
    changes = Changes()
    told = [
        changes.take(with_problems(t, *standing))
        for t, standing in ((1, ()), (2, (PROBLEM,)), (3, (PROBLEM,)), (4, ()))
    ]
    assert [[(event.t, event.line()["change"]) for event in events] for events in told] == [
        [],
        [(2, "began")],
        [],
        [(4, "ended")],
    ]


def test_a_problem_whose_words_change_is_still_the_same_one() -> None:
    changes = Changes()
    changes.take(with_problems(1, PROBLEM))
    assert changes.take(with_problems(2, replace(PROBLEM, text="2 KV leases ran out", since=11.0))) == []


def test_two_missing_metrics_of_one_target_are_two_problems() -> None:
    missing = [ProblemState("metric_missing", "t", 1.0, m, "info", evidence={"metric": m}) for m in ("tpot", "itl")]
    assert len(Changes().take(with_problems(1, *missing))) == 2


def test_an_event_has_its_public_form() -> None:
    (event,) = Changes().take(with_problems(2, PROBLEM))
    assert event.line() == {
        "type": "event",
        "t": 2,
        "kind": "problem",
        "change": "began",
        "code": "kv_expired",
        "severity": "warning",
        "pool": "prefill",
        "target": None,
        "engine": None,
        "process": None,
        "since": 10.0,
        "text": "1 KV lease ran out",
    }


def test_a_problem_that_comes_and_goes_is_logged_rarely(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    changes, log = Changes(), EventLog()
    for t in range(0, 2000, 10):
        log.write(changes.take(with_problems(t, *([PROBLEM] if t % 20 else []))))
    began = [record for record in caplog.records if "over" not in record.message]
    assert 3 <= len(began) <= 4


def test_a_thousand_problems_at_once_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    many = [replace(PROBLEM, target=f"t{i}") for i in range(1000)]
    EventLog().write(Changes().take(with_problems(1, *many)))
    assert len(caplog.records) == 21
    assert caplog.records[-1].message == "and 980 more changes; all stand in the state"


def test_a_defect_is_counted_each_time_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    defects = Defects(lambda: now)
    for now in (0.0, 1.0, 59.0, 61.0):  # noqa: B007 - read by the clock
        defects.note("observe", ValueError("odd"))
    assert defects.counts == {"observe": 4}
    assert len(caplog.records) == 2
    assert caplog.records[0].exc_info is not None
    assert [problem.severity for problem in defects.problems()] == ["warning"]
    now = 2000.0
    assert defects.problems() == []
