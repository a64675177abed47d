"""Samples by time: exact at a window's ends while they are young, rounded to slots later, bounded for ever."""

import pytest

from agent.indicators.requests.samples import Group, Sample
from agent.indicators.requests.slots import MOST_SINGLE_SAMPLES, Covered, Slots

T = 1_795_968_000.0  # begins a slot of every width
POOL = Group("pool", "decode")
PAIR = Group("pair", "prefill-0", "decode-0")


def put(slots: Slots, at: float, ttft: float = 1.0) -> Sample:
    sample = Sample(at, POOL, (ttft, None, None, None, None, None))
    slots.slot(at).add(sample)
    return sample


def counted(covered: Covered, group: Group = POOL) -> int:
    return covered.sums[group][0].count if group in covered.sums else 0


def test_a_young_window_holds_exactly_what_ended_in_it_its_end_included():
    slots = Slots()
    for second in range(100):
        put(slots, T + second)
    covered = slots.since(T + 13.0, T + 47.0)
    assert counted(covered) == 34
    assert (covered.since, covered.until) == (T + 13.0, T + 47.0)


def test_an_old_window_is_rounded_to_slots_and_says_what_it_covers():
    slots = Slots()
    for second in range(0, 3000, 10):
        put(slots, T + second + 1.0)
    covered = slots.since(T + 20.0, T + 290.0)
    assert (covered.since, covered.until) == (T, T + 300.0)
    assert counted(covered) == 30
    covered = slots.since(T + 40.0, T + 260.0)
    assert (covered.since, covered.until) == (T + 60.0, T + 240.0)
    assert counted(covered) == 18


def test_a_slot_with_too_many_samples_keeps_their_sum_only():
    slots = Slots()
    for number in range(MOST_SINGLE_SAMPLES + 1):
        put(slots, T + 1.0 + number * 1e-3)
    assert counted(slots.since(T, T + 10.0)) == MOST_SINGLE_SAMPLES + 1
    assert counted(slots.since(T, T + 6.0)) == MOST_SINGLE_SAMPLES + 1
    assert counted(slots.since(T, T + 4.0)) == 0
    assert slots.since(T, T + 6.0).until == T + 10.0


def test_everything_is_still_there_after_an_hour_and_gone_after_six():
    slots = Slots()
    put(slots, T + 5.0)
    for minute in range(1, 380):
        put(slots, T + 60.0 * minute)
        if minute == 90:
            assert counted(slots.since(T, T + 60.0 * minute)) == 91
    assert counted(slots.since(T, T + 300.0)) == 0
    kept = list(slots.all())
    assert len(kept) < 200
    assert sum(len(slot.sums) for slot in kept) < 200


def test_pairs_of_targets_are_kept_for_ten_minutes():
    slots = Slots()
    slots.slot(T + 1.0).add(Sample(T + 1.0, PAIR, (1.0, 0.1, 0.1)))
    assert counted(slots.since(T, T + 10.0), PAIR) == 1
    put(slots, T + 700.0)
    assert counted(slots.since(T, T + 700.0), PAIR) == 0


def test_a_sample_can_be_taken_out_and_one_that_is_not_there_changes_nothing():
    slots = Slots()
    first, second = put(slots, T + 1.0, 1.0), put(slots, T + 2.0, 3.0)
    slots.slot(first.at).remove(first)
    slots.slot(first.at).remove(first)
    covered = slots.since(T, T + 10.0)
    assert counted(covered) == 1
    assert covered.sums[POOL][0].mean == pytest.approx(3.0)
    assert second in (slots.slot(T + 2.0).single or [])


def test_a_late_sample_of_an_hour_ago_lands_in_its_own_time():
    slots = Slots()
    put(slots, T + 5000.0)
    put(slots, T + 100.0)
    assert counted(slots.since(T, T + 300.0)) == 1


def test_the_clock_set_back_moves_what_was_seen_along():
    slots = Slots()
    put(slots, T + 3601.0)
    slots.shift(-3600.0)
    assert counted(slots.since(T, T + 10.0)) == 1
    put(slots, T + 2.0)
    assert counted(slots.since(T, T + 10.0)) == 2
    slots.shift(10.0)
    assert counted(slots.since(T, T + 10.0)) == 2  # less than half a slot: not worth losing places for
