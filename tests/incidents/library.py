"""The library: every played incident with what is expected of pdwatch. In: a name. Out: the incident as it was played.

The fleets are small and their seeds fixed, so that each incident is the same in every run; no recording is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from agent.demo import Fleet, Topology, start_incident, story
from tests.incidents.play import Sent, play

MINUTE = 60.0
NOON = 1_796_000_000.0 - 1_796_000_000.0 % 86400 + 12 * 3600
NIGHT = NOON - 9 * 3600
NOTHING: MappingProxyType[str, Any] = MappingProxyType({})


def quarter(prefill: int = 1, decode: int = 1, engines: int = 3, requests_per_second: float = 0.7) -> Topology:
    """`prefill` servers of two engines and `decode` servers of `engines`, as fast as those of the large fleet."""
    large = story()
    return replace(
        large,
        prefill=replace(large.prefill, targets=prefill, engines=2),
        decode=replace(large.decode, targets=decode, engines=engines),
        traffic=replace(large.traffic, peak_requests_per_second=requests_per_second),
    )


def one_of_each() -> Topology:
    """One server on each side."""
    return quarter()


def two_of_each() -> Topology:
    """Two servers on each side, at half their load: a restart leaves enough."""
    return quarter(2, 2, 2)


@dataclass(frozen=True, slots=True)
class Case:
    """One incident of the library and what must come of it. Times in minutes from the fleet's start.

    `pages`, `tickets`: what is sent, critical and warning, in order (`Sent.about`). `named`: what the first one's text
    must hold. `page_within_seconds`: from the incident's begin to the first alert, at most.
    """

    title: str
    incident: str
    pages: tuple[str, ...] = ()
    tickets: tuple[str, ...] = ()
    named: str = ""
    page_within_seconds: float = 0.0
    topology_of: Callable[[], Topology] = one_of_each
    begins: float = 8
    lasts: float = 10
    after: float = 14
    start: float = NOON
    options: MappingProxyType[str, Any] = field(default_factory=lambda: NOTHING)
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Played:
    """A case and what was sent; `began`, `ended`: the incident's."""

    case: Case
    began: float
    ended: float
    sent: tuple[Sent, ...]

    @property
    def pages(self) -> tuple[str, ...]:
        return tuple(sent.about for sent in self.sent if sent.is_page)

    @property
    def tickets(self) -> tuple[str, ...]:
        return tuple(sent.about for sent in self.sent if not sent.is_page)

    @property
    def first(self) -> Sent | None:
        """The first page, or else the first ticket."""
        return min(self.sent, key=lambda sent: (not sent.is_page, sent.at), default=None)

    @property
    def said(self) -> str:
        """What the first alert says."""
        texts = self.first.alert.annotations if self.first is not None else {}
        return " ".join(texts[name] for name in ("description", "cause") if name in texts)

    @property
    def seconds_to_first(self) -> float | None:
        return self.first.at - self.began if self.first is not None else None


OBJECTIVE_TPOT, OBJECTIVE_TTFT = "ObjectiveBreached tpot", "ObjectiveBreached ttft"

SECOND_ENGINE = MappingProxyType({"engine": 1})
CASES = (
    Case("MTP collapse", "mtp-collapse", (OBJECTIVE_TPOT,), named="tokens per step fell", page_within_seconds=420,
         begins=20, lasts=8, after=6),
    Case("graph fallback step", "graph-fallback", (OBJECTIVE_TPOT,), named="may have left the CUDA-graph path",
         page_within_seconds=420, begins=12, after=6),
    Case("decode rank slow", "rank-slow", (), ("RankSlow decode-0 1",), named="engine 1 of decode-0: steps of",
         page_within_seconds=600, begins=4, after=4, options=SECOND_ENGINE),
    Case("frozen engine", "frozen-engine", ("EngineFrozen decode-0 1",), named="engine 1 of decode-0 stands still",
         page_within_seconds=120, begins=4, after=16, options=SECOND_ENGINE),
    Case("KV lease expiry", "kv-expiry", ("ErrorsHigh decode",), ("KvExpired prefill",), named="KV transfers failed",
         page_within_seconds=300, begins=4, lasts=7, after=4),
    Case("engine frozen for 50 s", "frozen-engine", begins=4, lasts=50 / 60, after=14, options=SECOND_ENGINE),
    Case("transfer stall", "transfer-stall", ("KvStalled decode-0 2",), named="no transfer has completed",
         page_within_seconds=180, begins=8, after=22, seed=2),
    Case("slow transfers", "kv-slow", (OBJECTIVE_TTFT,), named="transferring KV rose from", page_within_seconds=480,
         begins=10, after=4, options=MappingProxyType({"factor": 80.0})),
    Case("prefill overload", "prefill-overload", (OBJECTIVE_TTFT,), named="waiting for a prefill engine rose from",
         page_within_seconds=300, begins=10, after=4),
    Case("errors", "errors", ("ErrorsHigh decode",), named="reason error", page_within_seconds=300, begins=4, lasts=7,
         after=4),
    Case("clients gone", "clients-gone", (), ("KvExpired prefill",), named="prefill legs had no decode leg",
         page_within_seconds=300, begins=4, after=4),
    Case("rollout of pools with one server", "rollout", ("PoolUnreachable prefill", "PoolUnreachable decode"),
         named="no target of pool prefill answers", page_within_seconds=180, begins=4, after=6),
    Case("deployment rollout", "rollout", topology_of=two_of_each, begins=4, lasts=20, after=4),
    Case("quiet night", "quiet-night", begins=2, lasts=15, options=MappingProxyType({"ramp_seconds": 300.0}), after=8),
    Case("low traffic with one slow request", "low-traffic", begins=4, lasts=12, after=4),
    Case("diurnal load without fault", "diurnal", start=NIGHT, begins=4, lasts=16, after=4),
)  # fmt: skip


@cache
def played(title: str) -> Played:
    """The case of this title, played; each at most once in a run."""
    case = next(case for case in CASES if case.title == title)
    fleet = Fleet(replace(case.topology_of(), seed=case.seed), case.start)
    began = case.start + case.begins * MINUTE
    ended = began + case.lasts * MINUTE
    start_incident(fleet, case.incident, at=began, until=ended, **case.options)
    return Played(case, began, ended, tuple(play(fleet, ended + case.after * MINUTE, read_until=ended)))
