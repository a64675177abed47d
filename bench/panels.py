"""Every query of every panel against a real Prometheus. In: which fleet. Out: what has no answer, and if that is said.

    python -m bench.panels recording         # the shipped recording of a real fleet; a test does the same
    python -m bench.panels fleet FILE        # another recording of such a fleet, as `pdwatch record` writes it
    python -m bench.panels demo [SECONDS]    # `pdwatch demo` live, its servers and pdwatch scraped for so long (300)

The reasons are those of `agent/export/dashboards/answers.py`, and so of the tables in docs/dashboards.md. Ends with 1
where a query is empty without a reason, or a reason stands for one that has an answer. Needs Debian's prometheus.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agent.export.dashboards.answers import ALL_SEEN, Seen
from agent.sources.recordings import SHIPPED_RECORDING
from bench.panels_live import live_demo
from tests.export.dashboards.asking import without_answer
from tests.export.dashboards.made import boards, panels, queries
from tests.export.dashboards.played import Server, config, observations, play, recorded

LIVE_SECONDS = 300.0


class Answering(NamedTuple):
    """A Prometheus with a fleet's past from `start` to `end`, unix seconds."""

    server: Server
    start: float
    end: float


def main(word: str = "recording", what: str = "") -> int:
    """Asks, prints, and says whether all is as documented."""
    seen = next((one for one in ALL_SEEN if one.word == word), None)
    if seen is None:
        print(f"no fleet {word!r}: one of {', '.join(one.word for one in ALL_SEEN)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, _answering(word, what, Path(folder)) as of:
        began = time.monotonic()
        empty = without_answer(of.server, of.start, of.end)
        _report(seen, empty, of.end - of.start, time.monotonic() - began)
    return int(empty != set(seen.empty))


@contextmanager
def _answering(word: str, what: str, folder: Path) -> Iterator[Answering]:
    if word == "demo":
        with live_demo(folder, float(what or LIVE_SECONDS)) as (server, start, end):
            yield Answering(server, start, end)
        return
    observed = observations(Path(what) if what else SHIPPED_RECORDING)
    start, end = observed[0].t, observed[-1].t
    server = Server(folder)
    server.add(play(config(), observed))
    with server.running():
        by_rules = list(recorded(server, config(), start, end))
    server.add(by_rules)
    with server.running():
        yield Answering(server, start, end)


def _report(seen: Seen, empty: set[tuple[str, str, str]], seconds: float, took: float) -> None:
    asked = [query.key for query in queries()]
    print(f"{seen.column}: {seconds / 60:.0f} min of it; {len(asked)} queries asked in {took:.0f} s\n")
    print("| board | panels | queries | with data | empty for a stated reason | empty without one |")
    print("|---|---|---|---|---|---|")
    for word, board in boards().items():
        of_board = [key for key in asked if key[0] == word]
        without = [key for key in of_board if key in empty]
        said = [key for key in without if key in seen.empty]
        counts = (len(list(panels(board))), len(of_board), len(of_board) - len(without), len(said))
        print(f"| {word} | {' | '.join(map(str, counts))} | {len(without) - len(said)} |")
    print()
    for heading, keys in (
        ("empty without a reason", empty - set(seen.empty)),
        ("a reason, and yet an answer", set(seen.empty) - empty),
    ):
        for key in sorted(keys):
            print(f"{heading}: {' / '.join(key)}")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
