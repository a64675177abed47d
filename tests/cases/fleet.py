"""A watch over pages given by hand: target -> its pages in time order, `STEP_SECONDS` apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.config import config_from_names
from agent.model import PageObservation
from agent.state import State
from agent.watch import Watch
from tests.pages import zeroed

STEP_SECONDS = 15.0


def watched(pages: Mapping[str, Sequence[str | None]], window_seconds: float = 300.0) -> State:
    """The state right after the last pages; None stands for a scrape that failed."""
    watch = Watch(config_from_names(list(pages)))
    last = 0.0
    for step in range(max(len(texts) for texts in pages.values())):
        for target, texts in pages.items():
            text = texts[step] if step < len(texts) else None
            if text is not None:
                last = step * STEP_SECONDS
                watch.observe(PageObservation(last, target, text))
    return watch.state(last, window_seconds=window_seconds)


def window_of(page: str, target: str = "decode-0") -> State:
    """The state when all that `page` counts happened since the page before it."""
    return watched({target: [zeroed(page), page]})
