"""Step time that jumps at the same load is a change; growth with the load, noise and one slow minute are not."""

from __future__ import annotations

import pytest

from agent.verdicts.steps import step_change, step_problems
from agent.windows.increase import Increase
from tests.verdicts.pools import decoded, history_of, pool_with

END = 36_000.0


def problems(minutes: list[Increase]) -> list[str]:
    return [p.code for p in step_problems(pool_with(minutes[-1]), history_of(minutes, END), END)]


def test_a_jump_at_the_same_load_is_said_with_its_time_and_both_levels() -> None:
    minutes = [decoded(step_seconds=0.022)] * 30 + [decoded(step_seconds=0.040)] * 5
    (problem,) = step_problems(pool_with(minutes[-1]), history_of(minutes, END), END)
    assert problem.code == "latency_step_change"
    assert problem.since == END - 300.0
    assert problem.evidence["step_seconds_before"] == pytest.approx(0.022)
    assert problem.evidence["step_seconds"] == pytest.approx(0.040)


@pytest.mark.parametrize(
    "after",
    [
        [decoded(step_seconds=0.040, running=40, begun=200)] * 5,
        [decoded(step_seconds=0.040, kv_usage=0.9, prompt_tokens=60_000)] * 5,
        [decoded(step_seconds=0.040)] * 2,
        [decoded(step_seconds=0.040)] + [decoded(step_seconds=0.022)] * 4,
        [decoded(step_seconds=0.028)] * 5,
        [decoded(step_seconds=0.040, steps=20)] * 5,
    ],
    ids=["arrivals doubled", "prompts grew", "not long enough", "one slow minute", "too small", "too few steps"],
)
def test_what_load_noise_or_too_little_data_explain_is_not_said(after: list[Increase]) -> None:
    assert problems([decoded(step_seconds=0.022)] * 30 + after) == []


def test_batches_that_grow_only_because_steps_take_longer_do_not_hide_the_change() -> None:
    assert problems(
        [decoded(step_seconds=0.022)] * 30 + [decoded(step_seconds=0.040, running=36, kv_usage=0.7)] * 5
    ) == ["latency_step_change"]


def test_without_ten_minutes_before_nothing_is_said() -> None:
    assert step_change([(60.0 * i, decoded(step_seconds=0.02 if i < 8 else 0.05)) for i in range(14)]) is None


def test_a_prefill_pool_has_no_decode_steps() -> None:
    minutes = [decoded(step_seconds=0.022)] * 30 + [decoded(step_seconds=0.040)] * 5
    assert step_problems(pool_with(minutes[-1], "prefill"), history_of(minutes, END), END) == []
