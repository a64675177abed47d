"""What the viewer wants to see. In: keys. Out: the view after each.

Sorting puts the worst first; the same key again turns the order. What is not known comes last either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

PAGES = ("overview", "engines", "memory", "problems")
QUIT = ("q", "Q")


@dataclass(frozen=True, slots=True)
class Sorting:
    """What engines are sorted by. `worst_high`: large values are the ones to look at."""

    said: str
    worst_high: bool = True


SORTINGS: Mapping[str, Sorting] = MappingProxyType(
    {
        "t": Sorting("TPOT"),
        "f": Sorting("TTFT"),
        "r": Sorting("run"),
        "w": Sorting("wait"),
        "k": Sorting("KV"),
        "a": Sorting("accept", worst_high=False),
        "g": Sorting("tok/s", worst_high=False),
        "n": Sorting("name", worst_high=False),
    }
)
"""Key -> what it sorts by."""


@dataclass(frozen=True, slots=True)
class View:
    """`page`: one of PAGES. `offset`: lines scrolled down on it."""

    page: str = "overview"
    sort: str = "t"
    turned: bool = False
    offset: int = 0

    @property
    def descending(self) -> bool:
        """Large values first."""
        return SORTINGS[self.sort].worst_high != self.turned


def after(view: View, key: str, page_lines: int, most_offset: int) -> View:
    """The view after this key; keys that mean nothing change nothing. `most_offset`: how far down there is anything."""
    if key in SORTINGS:
        return replace(view, sort=key, turned=not view.turned if key == view.sort else False, offset=0)
    steps = {"up": -1, "down": 1, "page up": -page_lines, "page down": page_lines, "home": -most_offset}
    if key in steps or key == "end":
        offset = most_offset if key == "end" else view.offset + steps[key]
        return replace(view, offset=max(0, min(most_offset, offset)))
    turn = {"tab": 1, "right": 1, "back tab": -1, "left": -1}.get(key)
    if turn is not None:
        page = PAGES[(PAGES.index(view.page) + turn) % len(PAGES)]
        return replace(view, page=page, offset=0)
    if key in "1234"[: len(PAGES)] and key:
        return replace(view, page=PAGES[int(key) - 1], offset=0)
    return view
