"""What is a restart, what is a first sample, what contradicts itself."""

from __future__ import annotations

import pytest

from agent.model import HistogramKey, SeriesKey
from agent.windows.differences import SETTLE_PAGES, Differencer
from agent.windows.increase import Increase
from agent.windows.interval import Gathering, Interval
from agent.windows.target import SPARE_LAYOUTS, TargetWindow
from tests.readings import EDGES, Pages, layout

DRAFTED = SeriesKey("0", "spec_draft_tokens")
ACCEPTED = SeriesKey("0", "spec_accepted_tokens")
DRAFTED_1 = SeriesKey("1", "spec_draft_tokens")
ACCEPTED_1 = SeriesKey("1", "spec_accepted_tokens")


def gained(*intervals: Interval | None) -> dict[str, Increase]:
    gathered = Gathering()
    for interval in intervals:
        assert interval is not None
        gathered.add(interval)
    return gathered.result()


def test_the_first_page_gives_no_increase() -> None:
    pages = Pages(layout([DRAFTED]))
    assert Differencer().take(pages.at(0.0, [1000])).interval is None


def test_a_restart_of_one_engine_is_not_hidden_by_growth_of_another() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED, DRAFTED_1, ACCEPTED_1]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [3000, 1800, 1500, 900]))
    difference = differencer.take(pages.at(15.0, [300, 150, 5100, 2700]))
    engines = gained(difference.interval)
    drafted = sum(engine.count("spec_draft_tokens") or 0 for engine in engines.values())
    accepted = sum(engine.count("spec_accepted_tokens") or 0 for engine in engines.values())
    assert (accepted, drafted) == (1950, 3900)
    assert difference.restarted == ("0",)


def test_an_increase_after_failed_scrapes_is_over_the_real_time() -> None:
    pages = Pages(layout([DRAFTED]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [1000]))
    interval = differencer.take(pages.at(60.0, [1240])).interval
    assert interval is not None
    assert gained(interval)["0"].count("spec_draft_tokens") == 240
    assert interval.seconds == 60.0


def test_a_series_that_appears_on_a_known_engine_began_at_zero() -> None:
    differencer = Differencer()
    differencer.take(Pages(layout([DRAFTED])).at(0.0, [10]))
    errors = SeriesKey("0", "requests_finished", "error")
    interval = differencer.take(Pages(layout([DRAFTED, errors])).at(5.0, [11, 3])).interval
    assert gained(interval)["0"].count("requests_finished", "error") == 3


def test_an_engine_that_appears_gives_no_increase_with_its_first_page() -> None:
    differencer = Differencer()
    differencer.take(Pages(layout([DRAFTED])).at(0.0, [10]))
    interval = differencer.take(Pages(layout([DRAFTED, DRAFTED_1])).at(5.0, [11, 70_000])).interval
    engines = gained(interval)
    assert engines["0"].count("spec_draft_tokens") == 1
    assert engines["1"].count("spec_draft_tokens") == 0


def test_one_series_that_falls_while_its_engine_goes_on_is_no_restart() -> None:
    names = [SeriesKey("0", name) for name in ("a", "b", "c", "d")]
    pages = Pages(layout(names))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [100, 100, 100, 100]))
    difference = differencer.take(pages.at(5.0, [90, 110, 110, 110]))
    assert difference.restarted == ()
    assert [problem.code for problem in difference.problems] == ["inconsistent_source"]
    assert gained(difference.interval)["0"].count("a") == 0
    assert gained(difference.interval)["0"].count("b") == 10


def test_a_falling_sum_is_no_restart_and_gives_no_mean() -> None:
    queue = HistogramKey(SeriesKey("0", "queue"), EDGES)
    pages = Pages(layout([DRAFTED], [queue]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [10], [((5, 0, 0, 0, 0), 0.02)]))
    difference = differencer.take(pages.at(5.0, [20], [((6, 0, 0, 0, 0), -889.7)]))
    increase = gained(difference.interval)["0"].histograms["queue"]
    assert difference.restarted == ()
    assert (increase.count, increase.unsummed, increase.mean) == (1, 1, None)


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_host_uptime_in_a_prefill_sum_never_reaches_the_mean(reason: str) -> None:
    prefill = HistogramKey(SeriesKey("0", "prefill"), (0.3, 1920.0))
    failed = SeriesKey("0", "requests_finished", reason)
    pages = Pages(layout([failed], [prefill]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [0], [((10, 0, 0), 1.0)]))
    poisoned = differencer.take(pages.at(5.0, [1], [((11, 1, 0), 952.3)])).interval
    after = differencer.take(pages.at(10.0, [1], [((12, 1, 0), 952.4)])).interval
    clean = differencer.take(pages.at(15.0, [1], [((13, 1, 0), 952.6)])).interval
    increase = gained(poisoned, after, clean)["0"].histograms["prefill"]
    assert increase.count == 4
    assert increase.mean == pytest.approx(0.2)


def test_forced_zeros_of_one_token_requests_leave_tpot() -> None:
    tpot = HistogramKey(SeriesKey("0", "tpot"), EDGES)
    lengths = HistogramKey(SeriesKey("0", "generation_tokens"), (1.0, 2.0, 5.0))
    pages = Pages(layout([], [tpot, lengths]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [], [((0,) * 5, 0.0), ((0,) * 4, 0.0)]))
    interval = differencer.take(pages.at(5.0, [], [((4, 2, 0, 0, 0), 0.05), ((3, 0, 3, 0), 20.0)])).interval
    increase = gained(interval)["0"].histograms["tpot"]
    assert increase.counts == [1, 2, 0, 0, 0]
    assert increase.mean == pytest.approx(0.05 / 3)


@pytest.mark.parametrize("lengths_first", [True, False])
def test_forced_zeros_on_neighbouring_pages_cancel_over_the_window(lengths_first: bool) -> None:
    tpot = HistogramKey(SeriesKey("0", "tpot"), EDGES)
    lengths = HistogramKey(SeriesKey("0", "generation_tokens"), (1.0, 2.0, 5.0))
    pages = Pages(layout([], [tpot, lengths]))
    differencer = Differencer()
    none, both = ((0,) * 5, 0.0), ((2, 0, 0, 0, 0), 0.0)
    unseen, seen = ((0,) * 4, 0.0), ((2, 0, 0, 0), 2.0)
    differencer.take(pages.at(0.0, [], [none, unseen]))
    early = differencer.take(pages.at(5.0, [], [none, seen] if lengths_first else [both, unseen])).interval
    late = differencer.take(pages.at(10.0, [], [both, seen])).interval
    assert gained(early, late)["0"].histograms["tpot"].count == 0


def test_two_processes_answering_in_turn_give_no_numbers() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED]))
    differencer = Differencer()
    first, second = (5000.0, 4000.0), (900.0, 700.0)
    kept: list[Interval] = []
    said = ""
    for turn in range(12):
        base = first if turn % 2 == 0 else second
        difference = differencer.take(pages.at(5.0 * turn, [base[0] + turn, base[1] + turn]))
        if difference.retract_previous and kept:
            kept.pop()
        if difference.interval is not None:
            kept.append(difference.interval)
        said = difference.inconsistent or said
    assert "several processes" in said
    assert kept == []


def test_a_source_that_settled_gives_numbers_again() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED]))
    differencer = Differencer()
    for turn in range(4):
        base = 5000.0 if turn % 2 == 0 else 900.0
        differencer.take(pages.at(5.0 * turn, [base + turn, base + turn]))
    differences = [differencer.take(pages.at(20.0 + 5 * k, [5100.0 + k] * 2)) for k in range(SETTLE_PAGES + 3)]
    assert differences[-1].inconsistent == ""
    assert differences[-1].interval is not None


def test_a_crash_loop_is_restarts_and_not_two_processes() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [50_000, 40_000]))
    restarts = 0
    for turn in range(1, 10):
        values = [20.0 * (turn % 3), 10.0 * (turn % 3)]
        difference = differencer.take(pages.at(5.0 * turn, values))
        restarts += bool(difference.restarted)
    assert restarts >= 1


def test_a_start_time_that_goes_back_is_another_process() -> None:
    started = SeriesKey("", "process_start_time_seconds")
    pages = Pages(layout([DRAFTED], gauges=[started]))
    differencer = Differencer()
    differencer.take(pages.at(0.0, [10], gauges=[2000.0]))
    difference = differencer.take(pages.at(5.0, [20], gauges=[1000.0]))
    assert "start time went back" in difference.inconsistent


def test_a_true_restart_with_a_newer_start_time_is_never_taken_for_a_second_process() -> None:
    started = SeriesKey("", "process_start_time_seconds")
    pages = Pages(layout([DRAFTED], gauges=[started]))
    differencer = Differencer()
    for t, value, start in ((0.0, 5.0, 1000.0), (5.0, 9.0, 1000.0)):
        differencer.take(pages.at(t, [value], gauges=[start]))
    difference = differencer.take(pages.at(10.0, [6.0], gauges=[1008.0]))
    assert difference.inconsistent == ""
    assert difference.restarted == ("0",)


def test_a_page_that_is_not_newer_gives_no_interval() -> None:
    pages = Pages(layout([DRAFTED]))
    differencer = Differencer()
    differencer.take(pages.at(10.0, [5]))
    difference = differencer.take(pages.at(10.0, [6]))
    assert difference.interval is None
    assert [problem.code for problem in difference.problems] == ["clock_jump"]


def test_changed_edges_are_a_first_sample() -> None:
    series = SeriesKey("0", "ttft")
    differencer = Differencer()
    differencer.take(Pages(layout([DRAFTED], [HistogramKey(series, EDGES)])).at(0, [1], [((5, 0, 0, 0, 0), 0.02)]))
    other = Pages(layout([DRAFTED], [HistogramKey(series, (0.02,))]))
    difference = differencer.take(other.at(5.0, [2], [((900, 7), 9.0)]))
    assert "ttft" not in gained(difference.interval)["0"].histograms  # not 0: what was observed is not known
    (problem,) = difference.problems
    assert (problem.code, "bucket edges of ttft of engine 0" in problem.text) == ("mixed_buckets", True)
    after = differencer.take(other.at(10.0, [3], [((901, 9), 11.0)]))
    assert gained(after.interval)["0"].histograms["ttft"].counts == [1, 2]
    assert after.problems == ()


def test_edges_that_change_with_a_restart_lose_nothing() -> None:
    series, gauges = SeriesKey("0", "ttft"), [SeriesKey("", "process_start_time_seconds")]
    differencer = Differencer()
    before = Pages(layout([DRAFTED], [HistogramKey(series, EDGES)], gauges))
    differencer.take(before.at(1000.0, [9], [((5, 0, 0, 0, 0), 0.02)], [500.0]))
    other = Pages(layout([DRAFTED], [HistogramKey(series, (0.02,))], gauges))
    difference = differencer.take(other.at(1060.0, [12], [((3, 4), 9.0)], [1010.0]))
    assert gained(difference.interval)["0"].histograms["ttft"].counts == [3, 4]
    assert gained(difference.interval)["0"].count("spec_draft_tokens") == 12
    assert difference.problems == ()


def test_a_restarted_process_counts_from_zero_even_when_it_has_passed_its_old_counts() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED], gauges=[SeriesKey("", "process_start_time_seconds")]))
    differencer = Differencer()
    differencer.take(pages.at(1000.0, [50, 20], gauges=[500.0]))
    difference = differencer.take(pages.at(1300.0, [60, 30], gauges=[1010.0]))
    assert difference.restarted == ("0",)
    increase = gained(difference.interval)["0"]
    assert (increase.count("spec_draft_tokens"), increase.count("spec_accepted_tokens")) == (60, 30)


def test_counts_that_grow_past_the_old_ones_right_after_a_restart_are_no_second_process() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED], gauges=[SeriesKey("", "process_start_time_seconds")]))
    differencer = Differencer()
    turns = ((1000.0, [900, 600], 500.0), (1005.0, [901, 601], 500.0), (1010.0, [3, 2], 1006.0))
    for t, values, started in turns:
        differencer.take(pages.at(t, values, gauges=[started]))
    difference = differencer.take(pages.at(1015.0, [5000, 4000], gauges=[1006.0]))
    assert difference.inconsistent == ""
    assert gained(difference.interval)["0"].count("spec_draft_tokens") == 4997


def test_a_process_that_was_there_before_the_last_page_did_not_just_restart() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED], gauges=[SeriesKey("", "process_start_time_seconds")]))
    differencer = Differencer()
    differencer.take(pages.at(1000.0, [50, 20], gauges=[500.0]))
    difference = differencer.take(pages.at(1005.0, [5000, 3000], gauges=[700.0]))
    assert difference.restarted == ()


def test_a_counter_that_never_had_a_usable_value_is_unknown_and_not_zero() -> None:
    pages = Pages(layout([DRAFTED, ACCEPTED], [HistogramKey(SeriesKey("0", "ttft"), EDGES)]))
    differencer = Differencer()
    intervals = []
    for turn in range(3):
        reading = pages.at(5.0 * turn, [10.0 * turn, 0.0], [((turn, 0, 0, 0, 0), 0.0)])
        reading.counters.pop(1, None)
        reading.histograms.clear()
        intervals.append(differencer.take(reading).interval)
    increase = gained(*intervals[1:])["0"]
    assert increase.count("spec_draft_tokens") == 20
    assert increase.count("spec_accepted_tokens") is None
    assert "ttft" not in increase.histograms


def test_a_counter_becomes_known_and_unknown_with_the_intervals_in_the_window() -> None:
    blind, seeing = Pages(layout([DRAFTED, ACCEPTED])), Pages(layout([DRAFTED, ACCEPTED]))
    window = TargetWindow(900.0)
    for turn in range(12):
        pages = blind if turn < 4 or turn >= 8 else seeing
        reading = pages.at(5.0 * turn, [10.0 * turn, 5.0 * turn])
        if pages is blind:
            reading.counters.pop(1, None)
            reading.fresh = True
            reading.counters[0] = 10.0 * turn
        window.take(reading)

    def accepted(until: float) -> float | None:
        return window.increases(until - 10.0, until).engines["0"].count("spec_accepted_tokens")

    assert [accepted(15.0), accepted(35.0), accepted(55.0)] == [None, 10.0, None]


def test_edges_that_change_on_every_page_take_bounded_memory() -> None:
    window, series = TargetWindow(900.0), SeriesKey("0", "ttft")
    found = window.increases(-30.0, 0.0)
    for turn in range(200):
        pages = Pages(layout([DRAFTED], [HistogramKey(series, (0.02 + turn, 500.0))]))
        window.take(pages.at(5.0 * turn, [turn], [((turn, 0, 0), 1.0)]))
        found = window.increases(5.0 * turn - 30.0, 5.0 * turn)
    (running,) = window._running.values()
    assert running._gathering.layouts <= 6 + SPARE_LAYOUTS
    assert found.engines["0"].count("spec_draft_tokens") == 6
    assert "ttft" not in found.engines["0"].histograms
    assert [problem.code for problem in window.health.page_problems] == ["mixed_buckets"]
