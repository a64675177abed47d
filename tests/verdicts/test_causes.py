"""Why TPOT or TTFT rose: the split is exact, and the part that grew is the one that is named."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.verdicts.causes import Cause, tpot_cause, tpot_parts, ttft_cause, ttft_parts
from agent.windows.increase import HistogramIncrease, Increase
from tests.verdicts.pools import decoded, history_of

END = 36_000.0
GOOD = decoded(step_seconds=0.022, tokens_per_step=1.4, running=20)


def cause(now: Increase, before: Increase = GOOD) -> Cause:
    found = tpot_cause("decode", now, history_of([before] * 60, END), END, 0.020)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (decoded(step_seconds=0.022, tokens_per_step=1.02), "acceptance_drop"),
        (decoded(step_seconds=0.040, tokens_per_step=1.4), "graph_fallback"),
        (decoded(step_seconds=0.040, tokens_per_step=1.4, running=45, begun=200), "batch_growth"),
        (decoded(step_seconds=0.040, tokens_per_step=1.4, prompt_tokens=60_000), "longer_contexts"),
        (decoded(step_seconds=0.040, tokens_per_step=1.4, preemptions=60), "preemptions"),
        (decoded(step_seconds=0.0221, tokens_per_step=1.4), "request_mix"),
    ],
)
def test_the_cause_is_the_part_that_changed(now: Increase, code: str) -> None:
    assert cause(now).code == code


def test_the_text_gives_before_and_after() -> None:
    text = cause(decoded(step_seconds=0.022, tokens_per_step=1.02)).text
    assert "15.7 ms -> 21.6 ms" in text
    assert "from 1.40 to 1.02" in text


def test_without_a_time_within_target_there_is_no_before() -> None:
    assert cause(decoded(step_seconds=0.04), before=decoded(step_seconds=0.04)).code == "no_baseline"


@given(
    st.floats(0.001, 1.0),
    st.floats(1.0, 8.0),
    st.integers(100, 100_000),
)
def test_tpot_is_step_time_over_tokens_per_step_without_a_rest(step: float, tokens: float, steps: int) -> None:
    parts = tpot_parts(decoded(steps=steps, step_seconds=step, tokens_per_step=tokens), "decode")
    assert parts is not None
    assert parts.step_seconds / parts.tokens_per_step == pytest.approx(parts.tpot_seconds, rel=1e-12)
    assert parts.tokens_per_step == pytest.approx(tokens, rel=1e-6)
    assert math.isfinite(parts.tpot_seconds)


def times(**means: float) -> Increase:
    return Increase(
        histograms={name: HistogramIncrease((1000.0,), [50.0, 0.0], total=50 * mean) for name, mean in means.items()}
    )


def test_ttft_is_split_into_what_adds_up_to_it() -> None:
    parts = ttft_parts(times(queue=0.2, prefill=1.1), times(queue=0.5, kv_transfer_time=0.3, prefill=0.02))
    assert {part.code: part.seconds for part in parts} == pytest.approx(
        {"prefill_queue": 0.2, "prefill_compute": 1.1, "kv_transfer": 0.3, "decode_wait": 0.2, "first_step": 0.02}
    )


def test_the_part_that_grew_most_is_the_cause_of_a_ttft_breach() -> None:
    before = (times(queue=0.1, prefill=1.1), times(queue=0.4, kv_transfer_time=0.3, prefill=0.02))
    histories = (history_of([before[0]] * 60, END), history_of([before[1]] * 60, END))
    queued = ttft_cause(times(queue=3.0, prefill=1.2), before[1], histories, END)
    moved = ttft_cause(before[0], times(queue=2.4, kv_transfer_time=2.2, prefill=0.02), histories, END)
    assert queued is not None
    assert moved is not None
    assert (queued.code, moved.code) == ("prefill_queue", "kv_transfer")
    assert "from 100.0 ms to 3.00 s" in queued.text
