"""What is wrong inside one page. In: findings while a page is read. Out: at most a screenful of `PageProblem`s.

A damaged page can be wrong in ten thousand places; a person needs the first few and the number of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.model import TARGET_WIDE, PageProblem

CODE = "unusable_page"
MOST = 20
"""Problems named per page; the rest is counted."""


@dataclass(slots=True)
class Problems:
    """The first problems of a page, and how many there are in all."""

    first: list[PageProblem] = field(default_factory=list)
    count: int = 0

    def add(self, text: str, engine: str = TARGET_WIDE) -> None:
        """Note a problem that leaves the rest of the page usable."""
        self.count += 1
        if len(self.first) < MOST:
            self.first.append(PageProblem(CODE, text, engine))

    def add_series(self, family: str, engine: str, what: str) -> None:
        """Note a problem of one series."""
        self.add(series_text(family, engine, what), engine)

    def add_harmless(self, text: str) -> None:
        """Note something that is wrong although no value is lost by it."""
        self.count += 1
        if len(self.first) < MOST:
            self.first.append(PageProblem(CODE, text, harmless=True))

    def with_more(self, more: Iterable[PageProblem]) -> tuple[PageProblem, ...]:
        """Return these problems and those, bounded; the last one says how many are not shown."""
        found = [*self.first, *more]
        unshown = self.count - len(self.first) + max(len(found) - MOST, 0)
        if unshown:
            return (*found[:MOST], PageProblem(CODE, f"and {unshown} more problems on this page"))
        return tuple(found)


def of_series(family: str, engine: str, what: str) -> PageProblem:
    """Return a problem of one series; `engine` is "" for a series of the whole target."""
    return PageProblem(CODE, series_text(family, engine, what), engine)


def series_text(family: str, engine: str, what: str) -> str:
    """Return a sentence about one series."""
    return f"{family} of engine {engine}: {what}" if engine != TARGET_WIDE else f"{family}: {what}"
