"""Every panel in one table, with what it shows of the shipped recording. In: boards. Out: a part of a document.

python -m agent.export.dashboards.panel_table docs/dashboards.md

A test plays the recording into a Prometheus and holds `EMPTY` against what the queries then return: nothing is empty
without a reason, and no reason stands for a query that has an answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent.export.dashboards.write import dashboard_files, default_config

BEGIN, END = "<!-- generated: panels -->\n", "<!-- end of generated -->\n"

_PERCENTILE = "legs have no common percentile: needs spans or a router, which the recording lacks"
_SHARE = "the share of requests within all objectives needs their spans, which the recording lacks"
_LIMIT = "the recorded host had no memory limit, so there is none to reach"
_SWAP = "swap was not readable on the recorded host"

EMPTY: Mapping[tuple[str, str, str], str] = MappingProxyType(
    {
        ("overview", "Time to first token, as a user waits for it", "B"): _PERCENTILE,
        ("overview", "Requests within the objectives", "A"): _SHARE,
        ("overview", "Tokens per second and GPU", "B"): _SHARE,
        ("memory", "All processes", "B"): _LIMIT,
        ("memory", "All processes", "F"): _LIMIT,
        ("memory", "All processes", "G"): _LIMIT,
        ("memory", "First to reach its limit", "A"): _LIMIT,
        ("memory", "Memory, its limit, and the forecast", "E"): _LIMIT,
        ("memory", "Time until the limit", "A"): _LIMIT,
        ("memory", "Time until the limit", "B"): _LIMIT,
        ("memory", "Swapped memory", "A"): _SWAP,
        ("itself", "Exports over OTLP", "A"): "no export over OTLP is configured there",
    }
)
"""(word in the board's uid, panel, letter of the query) -> why it has no answer on the shipped recording."""


def panel_table() -> str:
    """One table for each board."""
    parts = [BEGIN]
    for name, text in dashboard_files(default_config()).items():
        if name.endswith(".json"):
            parts.append(_board(name.removesuffix(".json"), json.loads(text)))
    return "\n".join(parts) + "\n" + END


def replaced(document: str) -> str:
    """The document with its generated part made anew. ValueError where it has none."""
    before, _, rest = document.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"no part between {BEGIN.strip()} and {END.strip()}")
    return before + panel_table() + after


def _board(word: str, board: Mapping[str, Any]) -> str:
    lines = [f"### {board['title']} (`{board['uid']}`)\n", board["description"] + "\n"]
    lines += ["| panel | kind | queries | on the recording |", "|---|---|---|---|"]
    lines += _panels(word, board)
    return "\n".join(lines) + "\n"


def _panels(word: str, board: Mapping[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        if panel["type"] == "row":
            continue
        letters = [target["refId"] for target in panel["targets"]]
        empty = {
            letter: EMPTY[word, panel["title"], letter] for letter in letters if (word, panel["title"], letter) in EMPTY
        }
        if not empty:
            said = "data"
        elif len(empty) == len(letters):
            said = f"empty: {next(iter(empty.values()))}"
        else:
            said = f"data; {', '.join(empty)} empty: {'; '.join(dict.fromkeys(empty.values()))}"
        yield f"| {panel['title']} | {panel['type']} | {len(letters)} | {said} |"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(replaced(path.read_text(encoding="utf-8")), encoding="utf-8")
