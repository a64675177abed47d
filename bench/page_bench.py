"""What one view of the page costs. In: nothing. Out: CPU per view on the story's topology, by part.

    python -m bench.page_bench

The simulated fleet (4 prefill targets with 4 engines, 1 decode target with 8) is watched for some minutes, with its
processes and a full day of history on every line. A view is: the state, the page, and its bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from agent.demo import story
from agent.outputs.history import History
from agent.outputs.page import page_html, view_of
from agent.outputs.page.page import PARTS
from agent.outputs.page.promises import promises
from agent.outputs.page.view import RecentLines
from agent.state import State
from tests.browser.fleets import Happening, played

MINUTES = 8.0
VIEWS = 20
LEAKING = 4


def main() -> None:
    live = played(story(), [Happening("mtp-collapse", 0.05, {})], busy_hours=MINUTES / 60.0)
    live.history = filled(live.plain_state())
    state = live.state()
    # The dearest case: charts of leaking processes, each with its line of the day.
    leaking = tuple(replace(each, trend="leaking", severity="critical") for each in state.memory[:LEAKING])
    view = replace(view_of(live), state=replace(state, memory=(*leaking, *state.memory[LEAKING:])))
    targets = view.targets()
    engines = sum(len(target.engines) for target in targets.values())
    states = [timed(lambda: live.watch.state(live.now())) for _ in range(VIEWS)]
    first = timed(lambda: page_html(replace(view, _lines={})).encode())
    fresh = median(timed(lambda: page_html(replace(view, _lines={})).encode()) for _ in range(VIEWS))
    view = replace(view, history=RecentLines(live.history), _lines={})
    page_html(view)
    pages = [timed(lambda: page_html(replace(view, _lines={})).encode()) for _ in range(VIEWS)]
    size = len(page_html(view).encode())
    whole = median(states) + median(pages)
    shown = f"{len(targets)} targets, {engines} engines, {len(state.memory)} processes"
    print(f"one view: {shown}: {whole * 1e3:.1f} ms of CPU")
    print(f"  state  {median(states) * 1e3:6.1f} ms  shared by all viewers within a second")
    print(f"  page   {median(pages) * 1e3:6.1f} ms  {size / 1024:.0f} KiB")
    print(f"  once a minute the lines of the day are brought up to date: {(fresh - median(pages)) * 1e3:.1f} ms more")
    print(f"  once after a start they are read whole: {(first - median(pages)) * 1e3:.1f} ms more")
    for part in (promises, *PARTS):
        spent = median(timed(partial(part, replace(view, _lines={}))) for _ in range(VIEWS))
        print(f"    {part.__name__:12} {spent * 1e3:6.2f} ms")


def filled(state: State) -> History:
    """A day of notes of one state, minute by minute."""
    history = History(None)
    for minute in range(24 * 60):
        history.note(replace(state, at=state.at - 60.0 * (24 * 60 - minute)))
    return history


def timed(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
