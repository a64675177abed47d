"""The state as JSON: the public names, and nothing that JSON cannot hold."""

import json
import math
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.outputs.state_json import state_dict, state_text
from agent.state import ProblemState
from tests.golden import assert_golden
from tests.outputs import fleet


def test_the_whole_state_is_as_it_was() -> None:
    assert_golden(Path("state.json"), json.dumps(state_dict(fleet.live().state()), indent=1) + "\n")


def test_the_text_and_the_dict_say_the_same() -> None:
    state = fleet.live().state()
    assert json.loads(state_text(state)) == state_dict(state)


def test_a_line_says_first_what_it_is() -> None:
    text = state_text(fleet.live().state())
    assert text.startswith('{"type":"state","at":')
    assert "\n" not in text


def test_the_names_are_those_that_the_outside_relies_on() -> None:
    state = state_dict(fleet.live().state())
    decode = state["pools"]["decode"]
    assert {"type", "at", "window_s", "pools", "system", "memory", "verdicts", "problems"} <= set(state)
    assert set(decode["latency"]) == {"ttft", "tpot", "itl", "queue", "prefill", "decode", "e2e"}
    assert set(decode["latency"]["ttft"]["quantiles"]) == {"0.5", "0.9", "0.95", "0.99"}
    assert set(decode["latency"]["ttft"]["quantiles"]["0.5"]) == {"value", "low", "high", "likely"}
    assert {"transfers", "time", "post_time", "bytes", "bytes_per_s", "failed", "expired"} <= set(decode["kv_transfer"])
    assert {"running", "waiting", "kv_fetch", "kv_usage_max", "preemptions"} <= set(decode["load"])
    assert {"drafts", "padded_drafts", "acceptance_rate", "acceptance_length"} <= set(decode["speculation"])
    assert decode["targets"]["decode-0"]["engines"].keys() == {"0", "1"}
    assert set(state["system"]["ttft"]) >= {"status", "count", "mean", "quantiles", "source", "parts"}
    assert {"target", "pid", "started", "title", "engine", "rss_bytes", "trend", "hours_to_limit"} <= set(
        state["memory"][0]
    )
    assert {"code", "target", "since", "text"} <= set(state["problems"][0])


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_number_that_json_has_no_word_for_is_null_and_every_other_is_exact(value: float) -> None:
    state = replace(fleet.live(rounds=0).state(), at=value)
    text = state_text(state)
    assert json.loads(text)["at"] == (value if math.isfinite(value) else None)
    assert "NaN" not in text
    assert "Infinity" not in text


def test_characters_that_utf8_lacks_do_not_break_the_text() -> None:
    problem = ProblemState("stale", "caf\u00e9\udc80", 0.0, "text", "warning")
    text = state_text(replace(fleet.live(rounds=0).state(), problems=(problem,)))
    assert text.isascii()
    assert json.loads(text)["problems"][0]["target"] == problem.target
