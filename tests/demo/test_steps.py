"""The arithmetic that replaces simulating every step: a clock of steps, and plans of what they accept."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.demo.drafting import draw_plan, tokens_per_step
from agent.demo.steps import PATTERN, Segment, StepClock


@given(st.integers(0, 100), st.floats(1e-3, 10.0), st.integers(0, 500))
def test_a_segment_counts_the_steps_that_it_says_have_ended(first: int, seconds: float, count: int):
    segment = Segment(1000.0, first, seconds)
    one_by_one = sum(seconds * PATTERN[(first + step) % len(PATTERN)] for step in range(count))
    assert segment.seconds_of(count) == pytest.approx(one_by_one)
    assert segment.completed(1000.0 + one_by_one + 0.4 * seconds) == count


def test_a_clock_remembers_its_past_through_changes_idle_time_and_a_freeze():
    clock = StepClock(0.0)
    clock.begin(10.0, 1.0, 0)
    ends = [clock.end_of(step) for step in range(40)]
    clock.begin(ends[19], 2.0, 20)
    assert clock.end_of(20) - ends[19] == pytest.approx(2.0 * PATTERN[20 % 16])
    idle_from = clock.end_of(29)
    clock.stop(idle_from, 30)
    clock.begin(500.0, 1.0, 30)
    clock.freeze(505.5)
    assert clock.step_at(600.0) == clock.step_at(505.5) == 35
    clock.thaw(605.5)
    assert clock.step_at(605.9) == 35
    assert clock.step_at(606.0) == 36
    assert [clock.step_at(t) for t in (0.0, 10.5, ends[4] + 0.1, ends[19] + 0.1, 499.0, 500.5)] == [0, 0, 5, 20, 30, 30]
    assert clock.busy_seconds(20) == pytest.approx(ends[19] - 10.0)
    assert clock.busy_seconds(30) == pytest.approx(idle_from - 10.0)
    assert clock.busy_seconds(36) - clock.busy_seconds(30) == pytest.approx(100.0 + sum(PATTERN[14:] + PATTERN[:4]))


chances = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5)


@given(st.integers(0, 1 << 30), chances, st.integers(1, 3000))
def test_a_plan_gives_exactly_the_tokens_asked_for_and_no_impossible_draft(seed: int, by_position: list[float], n: int):
    plan = draw_plan(Random(seed), by_position, n, first_step=5)
    tokens, accepted = plan.after(5 + plan.steps)
    assert tokens >= 1 + n
    assert tokens == 1 + plan.steps + sum(accepted)
    assert plan.steps >= accepted[0]
    assert list(accepted) == sorted(accepted, reverse=True)
    assert plan.after(5) == (1, [0] * len(by_position))
    seen = [plan.after(5 + step) for step in range(plan.steps + 1)]
    for (before, drafts_before), (after, drafts) in pairwise(seen):
        assert 1 <= after - before <= 1 + len(by_position)
        assert all(0 <= b - a <= 1 for a, b in zip(drafts_before, drafts, strict=True))


def test_plans_have_the_acceptance_that_the_chances_say():
    by_position = (0.68, 0.62, 0.5)
    rng = Random(3)
    plans = [draw_plan(rng, by_position, 500, 0) for _ in range(2000)]
    steps = sum(plan.steps for plan in plans)
    shares = [sum(plan.accepted[position] for plan in plans) / steps for position in range(3)]
    assert shares == pytest.approx([0.68, 0.68 * 0.62, 0.68 * 0.62 * 0.5], rel=0.02)
    assert 1 + sum(shares) == pytest.approx(tokens_per_step(by_position)[0], rel=0.01)
