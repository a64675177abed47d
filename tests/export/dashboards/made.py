"""The boards as plain values, made once. In: nothing. Out: boards, their panels, their queries."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from agent.export.dashboards.write import dashboard_files, default_config

Json = dict[str, Any]


class Asked(NamedTuple):
    """One query of one panel."""

    board: str
    panel: Json
    letter: str
    expr: str

    @property
    def key(self) -> tuple[str, str, str]:
        """How reasons for an empty panel name it."""
        return self.board, self.panel["title"], self.letter

    @property
    def name(self) -> str:
        """How a failing test names it."""
        return f"{self.board} / {self.panel['title']} / {self.letter}"


@cache
def boards() -> dict[str, Json]:
    """Word in the uid -> board."""
    files = dashboard_files(default_config())
    return {name.removesuffix(".json"): json.loads(text) for name, text in files.items() if name.endswith(".json")}


def panels(board: Json) -> Iterator[Json]:
    """Panels without the headings between them."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def queries(*words: str) -> Iterator[Asked]:
    """Every query of every panel of these boards, of all without any."""
    for word in words or boards():
        for panel in panels(boards()[word]):
            for target in panel.get("targets", ()):
                yield Asked(word, panel, target["refId"], target["expr"])
