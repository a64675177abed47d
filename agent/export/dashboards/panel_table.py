"""Every panel in one table, with what it shows of three fleets. In: boards, answers. Out: a part of a document.

python -m agent.export.dashboards.panel_table docs/dashboards.md

What is said here is held against a real Prometheus, see `answers.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.export.dashboards.answers import ALL_SEEN, Seen
from agent.export.dashboards.write import dashboard_files, default_config

BEGIN, END = "<!-- generated: panels -->\n", "<!-- end of generated -->\n"


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
    lines += [f"| panel | kind | queries | {' | '.join(seen.column for seen in ALL_SEEN)} |"]
    lines += [f"|---|---|---|{'---|' * len(ALL_SEEN)}"]
    lines += _panels(word, board)
    return "\n".join(lines) + "\n"


def _panels(word: str, board: Mapping[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        if panel["type"] == "row":
            continue
        letters = [target["refId"] for target in panel["targets"]]
        cells = [panel["title"], panel["type"], str(len(letters))]
        cells += [_said(seen, word, panel["title"], letters) for seen in ALL_SEEN]
        yield f"| {' | '.join(cells)} |"


def _said(seen: Seen, word: str, title: str, letters: Sequence[str]) -> str:
    """Whether a panel has data there, and why not."""
    empty = {letter: seen.empty[word, title, letter] for letter in letters if (word, title, letter) in seen.empty}
    if not empty:
        return "data"
    reasons = "; ".join(dict.fromkeys(empty.values()))
    return f"empty: {reasons}" if len(empty) == len(letters) else f"data; {', '.join(empty)} empty: {reasons}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(replaced(path.read_text(encoding="utf-8")), encoding="utf-8")
