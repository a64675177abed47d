"""Whether drafting pays: told only where another depth was seen at a like batch, or its cost is configured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.verdicts.paying import DEARER_FACTOR, depth_of, not_paying
from agent.windows.history import PoolHistory
from agent.windows.increase import Increase
from tests.verdicts.pools import decoded, history_of, pool_with

END = 1_800_000_000.0
NOTHING_SEEN = history_of([], END)


def drafting(
    depth: int, accepted: float, step_seconds: float, running: float = 20.0, prompt_tokens: float = 32_000.0
) -> Increase:
    """A stretch of 6000 steps that drafted `depth` tokens each, of which `accepted` were taken on average."""
    steps = 6000.0
    gain = decoded(
        steps, step_seconds, tokens_per_step=1.0 + accepted, running=running, prompt_tokens=prompt_tokens, begun=0.001
    )
    if depth:
        gain.counters["spec_drafts", ""] = steps
        gain.counters["spec_draft_tokens", ""] = depth * steps
        gain.counters["spec_accepted_tokens", ""] = accepted * steps
    return gain


def seen(*slots: Increase) -> PoolHistory:
    """A history of minutes, some of them merged into one slot of ten."""
    return history_of([slot for slot in slots for _ in range(10)], END)


def found(now: Increase, history: PoolHistory, cost: float | None = None) -> list[str]:
    problems = not_paying(pool_with(now), history, END - 300, END, cost)
    assert all(problem.code == "speculation_not_paying" and problem.severity == "warning" for problem in problems)
    return [problem.text for problem in problems]


def test_from_one_depth_alone_nothing_is_said_however_little_is_accepted() -> None:
    now = drafting(3, 0.05, 0.040)
    assert found(now, seen(now)) == []


def test_drafting_that_costs_more_than_none_did_at_a_like_batch_is_named_with_both_ratios() -> None:
    (text,) = found(drafting(3, 0.2, 0.036), seen(drafting(0, 0.0, 0.020)))
    assert "against no drafting" in text
    assert "tokens per step 1.00 -> 1.20 (x1.20), steps 20.0 ms -> 36.0 ms (x1.80)" in text
    assert "30.0 ms instead of 20.0 ms" in text


def test_another_depth_that_was_cheaper_is_named() -> None:
    (text,) = found(drafting(5, 1.0, 0.040), seen(drafting(1, 0.8, 0.025)))
    assert text.startswith("drafting 5 tokens a step does not pay in pool decode against 1 drafted")


def test_drafting_that_pays_is_not_named() -> None:
    assert found(drafting(3, 1.5, 0.036), seen(drafting(0, 0.0, 0.020))) == []


@pytest.mark.parametrize("load", [{"running": 40.0}, {"prompt_tokens": 90_000.0}])
def test_another_batch_or_other_contexts_tell_nothing(load: dict[str, float]) -> None:
    assert found(drafting(3, 0.2, 0.036, **load), seen(drafting(0, 0.0, 0.020))) == []


def test_a_stretch_in_which_the_depth_changed_is_of_neither_depth() -> None:
    mixed = drafting(0, 0.0, 0.020)
    mixed.add(drafting(3, 0.2, 0.036))
    mixed.add(drafting(4, 0.2, 0.036))
    assert depth_of(mixed) is None
    assert found(drafting(3, 0.2, 0.036), history_of([mixed] * 10, END)) == []


def test_more_than_one_token_a_step_without_drafts_on_the_page_is_not_taken_for_no_drafting() -> None:
    assert found(drafting(3, 0.2, 0.036), seen(drafting(0, 0.6, 0.020))) == []


def test_too_few_drafts_and_none_accepted_are_left_to_others() -> None:
    few = drafting(3, 0.2, 0.036)
    few.counters["spec_drafts", ""] = 100.0
    assert found(few, seen(drafting(0, 0.0, 0.020)), cost=1.0) == []
    assert found(drafting(3, 0.0, 0.036), seen(drafting(0, 0.0, 0.020)), cost=1.0) == []


@given(depth=st.integers(1, 8), accepted=st.floats(0.01, 5.0), cost=st.floats(0.0, 1.0))
def test_with_a_configured_cost_acceptance_length_decides_against_the_step_time_ratio(
    depth: int, accepted: float, cost: float
) -> None:
    accepted = min(accepted, float(depth))
    if abs(accepted - cost * depth) > 1e-3:
        told = found(drafting(depth, accepted, 0.030), NOTHING_SEEN, cost)
        assert bool(told) == (1.0 + accepted < 1.0 + cost * depth)


@given(accepted=st.floats(0.01, 3.0), step_ms=st.floats(20.0, 80.0))
def test_against_none_the_cost_of_a_token_decides(accepted: float, step_ms: float) -> None:
    ratio = step_ms / (1.0 + accepted) / 20.0
    if abs(ratio - DEARER_FACTOR) > 0.01:
        told = found(drafting(3, accepted, step_ms / 1000.0), seen(drafting(0, 0.0, 0.020)))
        assert bool(told) == (ratio > DEARER_FACTOR)
