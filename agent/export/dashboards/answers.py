"""Which queries have no answer where, and why. In: nothing. Out: three fleets, and reasons by panel and query.

A reason is a statement that is held against a real Prometheus: by a test for the shipped recording, by
`python -m bench.panels` for the others. A query without a reason has an answer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

Key = tuple[str, str, str]
"""(word in the board's uid, panel, letter of the query)"""

_PERCENTILE = "legs have no common percentile: needs spans or a router"
_SHARE = "the share of requests within all objectives needs their spans"
_LIMIT = "the host had no memory limit, so there is none to reach"
_SWAP = "swap was not readable on the recorded host"
_OTLP = "no export over OTLP is configured"
_RECEIVER = "pdwatch sends to nobody there"
_RELOAD = "there is no configuration file to read again"
_DISCOVERY = "targets are named, not discovered"
_SPANS = "no spans are sent there"
_NO_DEFECT = "pdwatch had no defect"


def _itself(reason: str, *queries: tuple[str, str]) -> dict[Key, str]:
    """The same reason for several panels of "pdwatch itself": (panel, letters)."""
    return {("itself", panel, letter): reason for panel, letters in queries for letter in letters}


_ROUTERLESS: Mapping[Key, str] = {
    ("overview", "Time to first token, as a user waits for it", "B"): _PERCENTILE,
    ("overview", "Requests within the objectives", "A"): _SHARE,
    ("overview", "Tokens per second and GPU", "B"): _SHARE,
    **_itself(
        _SPANS,
        ("Bodies of spans", "BC"),
        ("Legs of requests", "A"),
        ("Legs that wait for their other one", "A"),
    ),
}
_PLAYED: Mapping[Key, str] = _itself(
    "a recording is played without the receiver of spans", ("Spans per second", "AB"), ("Bodies of spans", "A")
)
_QUIET: Mapping[Key, str] = {
    **_itself(_NO_DEFECT, ("Defects caught", "A")),
    **_itself(_OTLP, ("Exports over OTLP", "A")),
    **_itself(
        _RECEIVER,
        ("Posts to receivers, and those not taken", "AB"),
        ("Alerts that wait to be sent", "AB"),
        ("Last post taken, ago", "A"),
        ("Alerts given up", "A"),
        ("Who posts", "A"),
    ),
    **_itself(_RELOAD, ("Configuration on disk", "A"), ("In force for", "A")),
    **_itself(
        _DISCOVERY,
        ("Targets found by discovery", "A"),
        ("Looks for targets that failed", "A"),
        ("Age of the list of targets", "A"),
    ),
}
_WITHOUT_LIMIT: Mapping[Key, str] = {
    ("memory", "All processes", "B"): _LIMIT,
    ("memory", "All processes", "F"): _LIMIT,
    ("memory", "All processes", "G"): _LIMIT,
    ("memory", "First to reach its limit", "A"): _LIMIT,
    ("memory", "Memory, its limit, and the forecast", "E"): _LIMIT,
    ("memory", "Time until the limit", "A"): _LIMIT,
    ("memory", "Time until the limit", "B"): _LIMIT,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One fleet that every query was run against. `column`: its heading; `empty`: what has no answer there, and why."""

    word: str
    column: str
    empty: Mapping[Key, str]


RECORDING = Seen(
    "recording",
    "shipped recording",
    MappingProxyType({**_ROUTERLESS, **_QUIET, **_PLAYED, **_WITHOUT_LIMIT, ("memory", "Swapped memory", "A"): _SWAP}),
)
DEMO = Seen("demo", "demo, live", MappingProxyType({**_ROUTERLESS, **_QUIET}))
FLEET = Seen("fleet", "real fleet", MappingProxyType({**_ROUTERLESS, **_QUIET, **_PLAYED}))

ALL_SEEN = (RECORDING, DEMO, FLEET)
