"""Whatever the numbers are, the page is well-formed: any may be missing, tiny, huge or contradict the others."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.outputs.page import View, page_html
from agent.state import Quantile
from tests.outputs.page.seen import sound
from tests.outputs.page.views import VIEWS, At, Lines

NUMBERS = st.one_of(st.just(0.0), st.floats(0, 1e-9), st.floats(0, 10), st.floats(0, 1e15), st.floats(-1e13, 1e13))
KEPT = {"at", "window_s", "since", "until", "started", "starts_at", "ends_at", "target"}
"""Moments stay in order, and what was promised is above 0."""


def shaken(data: st.DataObject, value: Any, name: str = "") -> Any:
    """The same value with some of its numbers missing or replaced, however deep they lie."""
    if isinstance(value, Quantile):
        low = abs(data.draw(NUMBERS))
        high = data.draw(st.one_of(st.none(), NUMBERS.map(lambda above: low + abs(above))))
        return Quantile(low if high is None else data.draw(st.sampled_from((None, low, high))), low, high)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{each.name: shaken(data, getattr(value, each.name), each.name) for each in fields(value) if each.init},
        )
    if isinstance(value, dict):
        return {key: shaken(data, each, name) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(shaken(data, each, name) for each in value)
    if isinstance(value, float) and name not in KEPT and data.draw(st.integers(0, 4)) == 0:
        return data.draw(NUMBERS)
    return value


def missing(value: Any, turn: int, count: list[int]) -> Any:
    """The same value where every `turn`-th optional number is not known."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {}
        for each in fields(value):
            if not each.init:
                continue
            now = getattr(value, each.name)
            if "None" in str(each.type) and isinstance(now, int | float):
                count[0] += 1
                found[each.name] = None if count[0] % turn == 0 else now
            else:
                found[each.name] = missing(now, turn, count)
        return replace(value, **found)
    if isinstance(value, dict):
        return {key: missing(each, turn, count) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(missing(each, turn, count) for each in value)
    return value


@settings(max_examples=40)
@given(st.sampled_from(sorted(VIEWS)), st.data())
def test_any_numbers_make_a_page(name: str, data: st.DataObject) -> None:
    view = VIEWS[name]()
    sound(page_html(replace(view, state=shaken(data, view.state))))


@settings(max_examples=40)
@given(st.sampled_from(sorted(VIEWS)), st.integers(1, 7), st.integers(0, 6))
def test_any_missing_numbers_make_a_page(name: str, turn: int, first: int) -> None:
    view = VIEWS[name]()
    sound(page_html(replace(view, state=missing(view.state, turn, [first]))))


POINTS = st.lists(
    st.builds(
        lambda ago, value, low, high: (ago, value, low, high),
        st.floats(0, 86_400),
        st.none() | NUMBERS,
        st.none() | NUMBERS,
        st.none() | NUMBERS | st.just(float("inf")),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(POINTS)
def test_any_history_makes_a_page(points: list[tuple[float, float | None, float | None, float | None]]) -> None:
    view: View = VIEWS["leak"]()
    series = [At(view.now - ago, value, low, high) for ago, value, low, high in sorted(points, reverse=True)]
    names = (
        "objective/tpot/decode",
        "memory/decode-0/VLLM::Worker_DP2",
        "kv_transfer/decode",
        "acceptance_length/decode",
    )
    sound(page_html(replace(view, history=Lines(dict.fromkeys(names, series)))))
