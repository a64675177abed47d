"""What engines' gains may be added up with each other's: the engines' gains come in, fit to be one pool's they go out.

A sum over engines is only as right as its worst part: times of a broken engine, whose sum is 0, would make the others
look fast, and the drafts of one engine beside the accepted tokens of another are a rate of nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.indicators.distribution import implausible
from agent.windows.increase import Increase

DRAFTING = frozenset({"spec_drafts", "spec_draft_tokens", "spec_accepted_tokens"})
"""Counters that mean something only beside each other."""


def believed(gains: Sequence[Increase]) -> Iterator[Increase]:
    """Each engine's gain without what would falsify the others'.

    Left out are times that add up to 0 where another engine's are plausible (where all are broken they stay, to be
    named), and an engine's counts of drafts where it lacks some of them.
    """
    broken = [{m for m, histogram in gain.histograms.items() if implausible(m, histogram)} for gain in gains]
    plausible: set[str] = set()
    if any(broken):
        for gain, bad in zip(gains, broken, strict=True):
            plausible |= {m for m, histogram in gain.histograms.items() if m not in bad and histogram.count > 0}
    for gain, bad in zip(gains, broken, strict=True):
        kept = gain
        if bad & plausible:
            kept = replace(kept, histograms={m: h for m, h in gain.histograms.items() if m not in bad & plausible})
        if not drafts_told(gain):
            kept = replace(kept, counters={k: n for k, n in gain.counters.items() if not k[0].startswith("spec_")})
        yield kept


def drafts_told(gain: Increase) -> bool:
    """Whether an engine shows all counters of drafting, or none of them."""
    return len({(metric, "") for metric in DRAFTING} & gain.counters.keys()) in (0, len(DRAFTING))
