"""What outlives a restart of pdwatch, and that nothing is lost or counted twice by it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import StateError
from agent.model import HistogramKey, SeriesKey
from agent.windows.fleet import FleetWindows
from agent.windows.saved import Document, obsolete, restore, saved
from tests.readings import EDGES, Pages, layout

LAYOUT = layout([SeriesKey("0", "generation_tokens")], [HistogramKey(SeriesKey("0", "ttft"), EDGES)])
NOW = 1_000_000.0


def through_json(windows: FleetWindows) -> dict[str, Document]:
    return dict(json.loads(json.dumps(dict(saved(windows)))))


def fed(windows: FleetWindows, pages: Pages, steps: list[int], begin: int = 0) -> None:
    for index, total in enumerate(steps, start=begin):
        counts = (0.0, float(total), 0.0, 0.0, 0.0)
        windows.take(pages.at(NOW + 30.0 * index, [float(total)], [(counts, 0.02 * total)]))


@given(st.lists(st.integers(0, 500), min_size=4, max_size=20), st.data())
def test_a_restart_of_pdwatch_changes_no_total(steps: list[int], data: st.DataObject) -> None:
    totals = [sum(steps[: i + 1]) for i in range(len(steps))]
    cut = data.draw(st.integers(1, len(steps) - 1))
    pool_of = {"decode-0": "decode"}
    whole, first = FleetWindows(pool_of), FleetWindows(pool_of)
    fed(whole, Pages(LAYOUT), totals)
    fed(first, Pages(LAYOUT), totals[:cut])
    second = FleetWindows(pool_of)
    restore(second, through_json(first))
    fed(second, Pages(LAYOUT), totals[cut:], begin=cut)
    until = NOW + 30.0 * (len(steps) - 1)
    history = second.pools["decode"].total.count("generation_tokens") or 0.0
    newest = second.targets["decode-0"].increases(NOW - 1, until).intervals[-1]
    assert history + sum(newest.counter_steps) == totals[-1] - totals[0]
    uncut = whole.pools["decode"].total.count("generation_tokens") or 0.0
    assert uncut + sum(whole.targets["decode-0"].increases(NOW - 1, until).intervals[-1].counter_steps) == (
        totals[-1] - totals[0]
    )


def test_only_what_changed_is_saved_again() -> None:
    windows = FleetWindows({"decode-0": "decode"})
    pages = Pages(LAYOUT)
    fed(windows, pages, [1, 2, 3, 4, 5, 6])
    slots = [key for key, _ in saved(windows) if "/slot/" in key]
    again = [key for key, _ in saved(windows) if "/slot/" in key]
    assert len(slots) >= 2
    assert again == []


def test_slots_that_left_their_ring_are_obsolete() -> None:
    windows = FleetWindows({"decode-0": "decode"})
    fed(windows, Pages(LAYOUT), [1, 2, 3])
    old = NOW - 7 * 3600
    assert obsolete(windows, f"windows/slot/decode/fine/{old:.0f}")
    assert not obsolete(windows, f"windows/slot/decode/coarse/{old:.0f}")
    assert obsolete(windows, "windows/page/decode-9")


@pytest.mark.parametrize("damage", [{"version": 99}, {"version": 1}, {"version": 1, "start": "x"}])
def test_damaged_or_foreign_history_is_refused_with_a_reason(damage: Document) -> None:
    windows = FleetWindows({"decode-0": "decode"})
    with pytest.raises(StateError, match="saved history"):
        restore(windows, {"windows/slot/decode/fine/1000": damage})


def test_a_series_that_missed_on_the_last_page_comes_back_without_its_lifetime() -> None:
    drafted = SeriesKey("0", "spec_draft_tokens")
    both, one = layout([drafted, SeriesKey("0", "generation_tokens")]), layout([drafted])
    first, second = FleetWindows({"decode-0": "decode"}), FleetWindows({"decode-0": "decode"})
    first.take(Pages(both).at(NOW, [10.0, 70_000.0]))
    first.take(Pages(one).at(NOW + 5, [11.0]))
    first.take(Pages(one).at(NOW + 10, [12.0]))
    restore(second, through_json(first))
    second.take(Pages(both).at(NOW + 15, [13.0, 70_009.0]))
    gained = second.targets["decode-0"].increases(NOW, NOW + 15).engines["0"]
    assert gained.count("generation_tokens") == 9


def test_pages_saved_without_what_was_gone_are_taken_up_all_the_same() -> None:
    windows, again = FleetWindows({"decode-0": "decode"}), FleetWindows({"decode-0": "decode"})
    fed(windows, Pages(LAYOUT), [1, 2, 3])
    documents = through_json(windows)
    for document in documents.values():
        document.pop("gone_counters", None)
        document.pop("gone_histograms", None)
    restore(again, documents)
    assert again.targets["decode-0"].remembered() is not None
