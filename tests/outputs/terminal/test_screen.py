"""What stands on the terminal: whole screens as files, and that nothing foreign, missing or narrow breaks a line."""

import copy
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agent.outputs.state_json import state_dict
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.engines import engines_of, ordered
from agent.outputs.terminal.screen import Seen, most_offset, report, screen
from agent.outputs.terminal.view import PAGES, SORTINGS, View, after
from agent.outputs.terminal.words import clean, clip, encodable
from tests.golden import assert_golden
from tests.outputs import fleet
from tests.outputs.terminal.documents import broken, quiet

EVIL = "\x1b]0;owned\x07\x1b[2J\r\n\u202egnp.exe\u200b\udc80\x9b31m" + "e\u0301" * 3 + "\t名前"
SEEN = {
    "broken": Seen(Part(broken()), 1.0),
    "quiet": Seen(Part(quiet())),
    "empty": Seen(Part({"type": "state"})),
    "lost": Seen(Part(broken()), 95.0, "cannot be reached: connection refused; is pdwatch running there?"),
}


def plain(lines: list[Text]) -> str:
    return "".join(line.plain.rstrip() + "\n" for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
@pytest.mark.parametrize("name", SEEN)
def test_the_overview_is_as_it_was(name: str, width: int, height: int) -> None:
    assert_golden(Path("terminal") / f"{name}_{width}.txt", plain(screen(SEEN[name], View(), width, height)))


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_is_as_it_was(width: int) -> None:
    assert_golden(Path("terminal") / f"report_{width}.txt", plain(report(SEEN["broken"], width)))


def test_the_worst_news_stands_first() -> None:
    head, first, *_ = plain(screen(SEEN["broken"], View(), 80, 24)).splitlines()
    assert "1 critical" in head
    assert first.startswith("BREACHED firing for 12 min: mean TPOT of decode 23.1 ms")


def test_a_lost_connection_is_said_above_everything_with_its_age() -> None:
    head = screen(SEEN["lost"], View(), 80, 24)[0].plain
    assert head.startswith("CONNECTION LOST 95 s ago (cannot be reached: connection refused")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (20, 5), (300, 100), (1, 1), (80, 2)])
@pytest.mark.parametrize("name", SEEN)
def test_every_page_fits_every_terminal(name: str, size: tuple[int, int], page: str) -> None:
    width, height = size
    lines = screen(SEEN[name], View(page=page), width, height)
    assert len(lines) <= height
    assert max((line.cell_len for line in lines), default=0) <= max(20, width)


def everywhere(value: Any, evil: str) -> Any:
    """The same document with something else in place of every text and in every name."""
    if isinstance(value, dict):
        return {
            f"{name}{evil}" if name.startswith(("prefill-", "decode-")) else name: everywhere(part, evil)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [everywhere(part, evil) for part in value]
    return value if not isinstance(value, str) or value == "state" else evil


@pytest.mark.parametrize("page", PAGES)
def test_nothing_foreign_moves_the_cursor_or_breaks_a_line(page: str) -> None:
    seen = Seen(Part(everywhere(broken(), EVIL)), 1.0, clean(EVIL))
    for line in [*screen(seen, View(page=page), 80, 24), *report(replace(seen, trouble=""), 80)]:
        assert all(character.isprintable() for character in line.plain), ascii(line.plain)
        assert "\u202e" not in line.plain
        assert line.cell_len <= 80


def test_markup_of_the_terminal_library_stays_text() -> None:
    document = broken()
    document["deployment"] = "[bold red]x[/] :boom:"
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=False)
    for line in screen(Seen(Part(document)), View(), 80, 24):
        console.print(line)
    assert "[bold red]x[/] :boom:" in out.getvalue()


def test_wide_characters_are_counted_by_their_cells() -> None:
    document = broken()
    document["memory"][0]["title"] = "名前" * 40
    for line in screen(Seen(Part(document)), View(page="memory"), 80, 24):
        assert line.cell_len <= 80


@given(st.text(max_size=60), st.integers(0, 40))
def test_clean_text_is_printable_and_clipped_text_fits(text: str, cells: int) -> None:
    cleaned = clean(text)
    assert all(character.isprintable() for character in cleaned)
    assert cell_len(clip(cleaned, cells)) <= cells


def without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    inside = changed
    for name in path[:-1]:
        inside = inside[name]
    del inside[path[-1]]
    return changed


def paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for name, part in items for path in ((*before, name), *paths(part, (*before, name)))]


def test_a_document_that_lacks_anything_is_shown_all_the_same() -> None:
    whole = quiet()
    for path in paths(whole):
        seen = Seen(Part(without(whole, path)))
        for page in PAGES:
            assert len(screen(seen, View(page=page), 80, 24)) == 24


@pytest.mark.parametrize("other", [None, True, -1, 1e308, 10**400, float("nan"), "text", [], [None], {}, {"x": {}}])
def test_a_value_of_another_kind_is_just_unknown(other: object) -> None:
    whole = quiet() | {"memory": [{"title": "x", "slope_bytes_per_hour": {"low": 1}}], "problems": [{"text": "y"}]}
    for path in paths(whole):
        changed = copy.deepcopy(whole)
        inside: Any = changed
        for name in path[:-1]:
            inside = inside[name]
        inside[path[-1]] = other
        lines = screen(Seen(Part(changed)), View(), 80, 24)
        assert "nan" not in plain(lines).lower()
        assert max(line.cell_len for line in lines) <= 80
        report(Seen(Part(changed)), 80)


def test_a_later_pdwatch_may_say_more() -> None:
    document = quiet()
    document["verdicts"][0] |= {"verdict": "half_met", "status": "sleeping", "text": "new words"}
    document["something"] = {"new": 1}
    assert "half met sleeping: new words" in plain(screen(Seen(Part(document)), View(), 80, 24))


def test_the_state_of_a_real_watch_is_shown() -> None:
    text = plain(report(Seen(Part(state_dict(fleet.live(deployment="glm").state()))), 100))
    for expected in ("pdwatch glm", "decode-0/0", "20 ms", "VLLM::EngineCore_DP0", "kv_expired"):
        assert expected in text


@pytest.mark.parametrize(
    ("sort", "first"),
    [("t", "decode-1/7"), ("r", "decode-0/7"), ("k", "decode-0/0"), ("f", "prefill-3"), ("n", "decode-0/0")],
)
def test_engines_are_sorted_with_the_worst_first_and_turned_by_the_same_key(sort: str, first: str) -> None:
    engines = engines_of(Part(broken()))
    assert ordered(engines, View(sort=sort))[0].name == first
    names = [engine.name for engine in ordered(engines, View(sort=sort, turned=True))]
    assert names[0] != first or sort == "k"
    if sort == "t":
        assert all(name.startswith("prefill") for name in names[-4:])  # not known comes last either way


def test_ranks_are_in_order_of_their_number() -> None:
    many: dict[str, Any] = {"pools": {"d": {"targets": {"decode-0": {"engines": {str(n): {} for n in range(12)}}}}}}
    names = [engine.name for engine in ordered(engines_of(Part(many)), View(sort="n"))]
    assert names == [f"decode-0/{n}" for n in range(12)]


def test_keys_choose_the_page_the_order_and_the_place() -> None:
    view = after(View(), "tab", 20, 50)
    assert view.page == "engines"
    assert after(view, "back tab", 20, 50).page == "overview"
    assert after(after(view, "down", 20, 50), "page down", 20, 50).offset == 21
    assert after(after(view, "end", 20, 50), "page down", 20, 50).offset == 50
    assert after(after(view, "up", 20, 50), "home", 20, 50).offset == 0
    assert after(view, "4", 20, 50).page == "problems"
    turned = after(after(view, "k", 20, 50), "k", 20, 50)
    assert (turned.sort, turned.turned, after(turned, "r", 20, 50).turned) == ("k", True, False)
    for key in ("z", "0", "", "é", "escape"):
        assert after(view, key, 20, 50) == view
    assert set(SORTINGS) == set("tfrwkagn")


def test_scrolling_reaches_the_last_engine() -> None:
    seen = SEEN["broken"]
    view = View(page="engines", sort="n")
    lowest = most_offset(seen, view, 80, 10)
    lines = plain(screen(seen, replace(view, offset=lowest), 80, 10)).splitlines()
    assert lines[-2].startswith("prefill-3")
    assert not lines[1].startswith("decode-0/0")


def test_a_terminal_without_these_characters_gets_others_one_for_one() -> None:
    for line in screen(SEEN["broken"], View(), 80, 24):
        shown = encodable(line, "latin-1")
        shown.plain.encode("latin-1")
        assert len(shown.plain) == len(line.plain)
        assert shown.spans == line.spans
    assert encodable(Text("16–24 µs…"), "ascii").plain == "16-24 us~"


def test_the_documented_screen_is_the_real_one(repository: Path) -> None:
    assert plain(screen(SEEN["broken"], View(), 80, 24)) in (repository / "docs" / "top.md").read_text(encoding="utf-8")
