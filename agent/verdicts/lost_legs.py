"""Prefill legs that no decode leg followed: the pools and both counts of a window come in, a problem goes out.

The counts are of pages that were fetched at different moments. With r prefill legs a second, and prefill's last page d
seconds after decode's, about r d of the legs that prefill has counted have begun on decode after its page; likewise at
the other end of the window, when prefill's first page is the older one. A decode server that restarts takes with it
what it counted after its last page. So many legs, and three standard deviations of such a count, are no lost ones;
nor are those that wait on decode.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.indicators.outcomes import finished
from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.state import Legs
from agent.verdicts.steps import begun
from agent.verdicts.wording import plural
from agent.windows.increase import Increase

UNMATCHED_SHARE, LEAST_UNMATCHED = 0.05, 5
"""A few legs are always under way between the pools at the end of a window."""
DEVIATIONS = 3.0


@dataclass(frozen=True, slots=True)
class _Counted:
    """Legs that one target counted between its first and its last page; `lost_seconds`: of them, before restarts."""

    legs: float
    first: float
    last: float
    lost_seconds: float


def lost_legs(pools: Sequence[PoolFacts], legs: Legs | None, since: float) -> Iterator[Problem]:
    """`since`: where the window begins; the problem is said to stand since then."""
    if legs is None:
        return
    apart = legs_between_pages(pools)
    lost = legs.unmatched - _waiting_on_decode(pools) - apart
    if lost < max(LEAST_UNMATCHED, DEVIATIONS * math.sqrt(apart)) or lost <= UNMATCHED_SHARE * legs.prefill:
        return
    text = (
        f"{lost:.0f} of {legs.prefill} prefill legs had no decode leg "
        "(clients gave up, refused hand-overs, or the proxy retried)"
    )
    evidence = {"prefill_legs": float(legs.prefill), "decode_legs": float(legs.decode)}
    if legs.requests is not None:
        text = f"{text}; the router counted {plural(legs.requests, 'request')}"
        evidence["router_requests"] = float(legs.requests)
    yield Problem("legs_unmatched", "", since, text, evidence=evidence)


def legs_between_pages(pools: Sequence[PoolFacts]) -> float:
    """Legs that prefill's pages count and decode's cannot, at an even rate; every decode target gets its share."""
    prefill = [counted for pool in pools if pool.role == "prefill" for counted in _counted(pool)]
    decode = [counted for pool in pools if pool.role == "decode" for counted in _counted(pool)]
    all_begun = sum(counted.legs for counted in decode)
    apart = 0.0
    for sender in prefill:
        if sender.last <= sender.first:
            continue
        per_second = sender.legs / (sender.last - sender.first)
        for receiver in decode:
            share = receiver.legs / all_begun if all_begun > 0 else 1.0 / len(decode)
            seconds = max(0.0, sender.last - receiver.last) + max(0.0, receiver.first - sender.first)
            apart += per_second * share * (seconds + receiver.lost_seconds)
    return apart


def _counted(pool: PoolFacts) -> Iterator[_Counted]:
    for target in pool.targets.values():
        gained = target.gained
        if gained.start is not None and gained.end is not None:
            of_engine = _ended if pool.role == "prefill" else begun
            legs = sum(of_engine(gain) for gain in gained.engines.values())
            lost_seconds = sum(interval.seconds for interval in gained.intervals if interval.restarted)
            yield _Counted(legs, gained.start, gained.end, lost_seconds)


def _ended(gain: Increase) -> float:
    return finished(gain) or 0.0


def _waiting_on_decode(pools: Sequence[PoolFacts]) -> float:
    """Decode legs that have arrived and have no first token yet, as far as the gauges of fresh pages tell."""
    return sum(
        sum(target.window.gauge("waiting").values())
        for pool in pools
        if pool.role == "decode"
        for target in pool.targets.values()
        if target.fresh
    )
