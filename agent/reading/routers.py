"""A router's pages, one after another. In: a page's text. Out: a `Reading` in logical names, as of a server's page.

So the windows difference routers' counts as they do servers': restarts, gaps and late series are handled once. A router
is never read as an engine: its readings hold `router_...` metrics alone, all of the whole target.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from agent.errors import NotRouter, PageError
from agent.model import Layout, Reading
from agent.reading.names import SampleName, families_of, samples_of
from agent.reading.other import what_else
from agent.reading.page import PageReader
from agent.reading.router_names import ROUTERS, KnownKind, RouterPage
from agent.reading.scan import Scan
from agent.reading.vocabulary import Vocabulary

_CHANGED = re.compile(r"^# TYPE (\w+)_time_to_first_token_seconds histogram$", re.MULTILINE)
NOTHING_YET = Layout(engines=(), counters=(), gauges=(), histograms=(), names={}, info={})


class RouterReader:
    """Reads the pages of one router target. `kind` auto: what the first page shows, and anew when that changes.

    `prefix`: what this deployment puts in the place of the router's own beginning of names (`DYN_METRICS_PREFIX`).
    """

    def __init__(self, kind: KnownKind | Literal["auto"], prefix: str = "") -> None:
        self._given: KnownKind | None = None if kind == "auto" else kind
        self._prefix = prefix
        self.kind: KnownKind | None = self._given
        """What the pages are of; None until an automatic one has shown it."""
        self._reader = None if self._given is None else _reader(self._given, prefix)

    def read(
        self, t: float, target: str, text: str, content_type: str = "", took_seconds: float | None = None
    ) -> Reading:
        """Read the page that `target` gave at `t` (unix seconds).

        A page without a single sample is read as one that says nothing: some routers show a family only once it has
        counted something. Raises PageError (NotRouter where it is no page of this kind).
        """
        if self._given is None and (self.kind is None or not _vocabulary(self.kind, self._prefix).is_on(text)):
            kind = kind_of(text, self._prefix)
            if kind is None:
                raise NotRouter(_unknown(text))
            if kind != self.kind:
                self.kind, self._reader = kind, _reader(kind, self._prefix)
        assert self._reader is not None
        assert self.kind is not None
        if _says_nothing(text):
            return Reading(t, target, NOTHING_YET, {}, {}, [], fresh=True, took_seconds=took_seconds)
        reading = self._reader.read(t, target, text, content_type, took_seconds)
        if not self._prefix and reading.fresh and not _counts_requests(reading):
            prefix = changed_prefix(self.kind, text)
            if prefix:
                self._prefix, self._reader = prefix, _reader(self.kind, prefix)
                reading = self._reader.read(t, target, text, content_type, took_seconds)
        return reading


def kind_of(text: str, prefix: str = "") -> KnownKind | None:
    """Which router's page this is; None for no router's that is known."""
    return next((kind for kind in ROUTERS if _vocabulary(kind, prefix).is_on(text)), None)


def changed_prefix(kind: KnownKind, text: str) -> str:
    """What stands in place of the router's own beginning of names, as its page shows; "" where nothing does.

    Dynamo changes only the families of its HTTP service; the others keep their names and so tell whose page it is.
    """
    if not ROUTERS[kind].root:
        return ""
    found = {match for match in _CHANGED.findall(text) if not match.startswith("dynamo_")}
    return found.pop() if len(found) == 1 else ""


def _counts_requests(reading: Reading) -> bool:
    return any(metric.startswith("router_") for metric in reading.layout.names)


def _reader(kind: KnownKind, prefix: str) -> PageReader:
    return PageReader(vocabulary=_vocabulary(kind, prefix))


@lru_cache(maxsize=32)
def _vocabulary(kind: KnownKind, prefix: str) -> Vocabulary:
    page = ROUTERS[kind]
    samples: dict[str, SampleName] = {}
    for name in page.rows:
        samples.update(samples_of(name, _spelled(page, prefix, name.aliases)))
    marks = _spelled(page, prefix, page.marks)

    def refusal(text: str) -> PageError:
        other = kind_of(text, prefix)
        if other is not None and other != kind:
            return NotRouter(
                f"not a page of {page.called}: it is one of {ROUTERS[other].called}; is router.kind {other}?"
            )
        return NotRouter(f"not a page of {page.called}: {_unknown(text)}")

    return Vocabulary(MappingProxyType(samples), families_of(samples), marks, refusal, _any_page)


def _spelled(page: RouterPage, prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if not prefix or not page.root:
        return names
    root = prefix if prefix.endswith("_") else f"{prefix}_"
    return tuple(root + name.removeprefix(page.root) if name.startswith(page.root) else name for name in names)


def _any_page(_: Scan) -> None:
    """Nothing on a router's page makes it another's."""


def _says_nothing(text: str) -> bool:
    return len(text) < 4096 and all(not line or line.isspace() or line.startswith("#") for line in text.split("\n"))


def _unknown(text: str) -> str:
    if any(mark in text for mark in ("vllm:", "vllm_")):
        return "this is a vLLM server's page, not a router's; list it under pools"
    return what_else(text).removeprefix("not a page of vLLM's: ").replace("no metric of vLLM's", "no router's metric")
