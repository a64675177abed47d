"""What discovery has to say. In: the follower of all sources. Out: problems, and figures for the metrics page.

A pool without a target is said even when its list is fine: nothing else would say it, since what is not there cannot be
unreachable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.outputs.sample import Sample, known
from agent.sources.discovery import DiscoveryFollower
from agent.sources.discovery.follow import SourceWork
from agent.state import ProblemState
from agent.verdicts.wording import duration, plural

MOST_TEXT = 600


@dataclass(frozen=True, slots=True)
class DiscoveryFigures:
    """At one moment. `found`: (pool, targets); `sources`: what each one did."""

    found: Sequence[tuple[str, int]]
    sources: Sequence[SourceWork]

    def samples(self) -> Iterator[Sample]:
        """Series of the metrics page; a source that serves several pools is one series for each."""
        for pool, count in self.found:
            yield from known("discovery_targets", (pool,), count)
        for work in self.sources:
            for pool in work.pools:
                yield from known("discovery_failures_total", (pool, work.kind), work.failures)
                yield from known("discovery_last_success_timestamp_seconds", (pool, work.kind), work.succeeded)


class Discovered:
    """Looks at one follower. `now` is unix seconds."""

    def __init__(self, follower: DiscoveryFollower) -> None:
        self._follower = follower
        self._empty_since: dict[str, float] = {}
        self._noted_since: dict[str, float] = {}

    @property
    def answered(self) -> bool:
        """Every source has been asked once, whatever it answered."""
        return self._follower.answered

    def figures(self) -> DiscoveryFigures:
        """As of now."""
        return DiscoveryFigures(list(self._follower.found), self._follower.work)

    def problems(self, now: float) -> list[ProblemState]:
        """Sources that fail, lists that cannot be taken over, pools without a target."""
        return [*self._failing(now), *self._left_out(now), *self._empty(now)]

    def _failing(self, now: float) -> Iterator[ProblemState]:
        for work in self._follower.work:
            if work.failing_since is None:
                continue
            age = f", {duration(now - work.succeeded)} old" if work.succeeded is not None else ""
            stands = (
                f"the last list stands ({plural(len(work.listing.targets), 'target')}{age})"
                if work.listing is not None
                else "no list has come yet"
            )
            for pool in work.pools:
                text = f"discovery of pool {pool} by {work.kind}: {work.failure}"[:MOST_TEXT] + f"; {stands}"
                yield ProblemState("discovery_failed", None, work.failing_since, text, "warning", pool=pool)

    def _left_out(self, now: float) -> Iterator[ProblemState]:
        notes: dict[str, list[str]] = {}
        for pool, note in self._follower.notes:
            notes.setdefault(pool, []).append(note)
        self._noted_since = {pool: self._noted_since.get(pool, now) for pool in notes}
        for pool, sentences in notes.items():
            text = f"discovery of pool {pool}: {'; '.join(sentences)}"[:MOST_TEXT]
            yield ProblemState("discovery_failed", None, self._noted_since[pool], text, "warning", pool=pool)

    def _empty(self, now: float) -> Iterator[ProblemState]:
        config = self._follower.current
        answered = {pool for work in self._follower.work if work.rounds for pool in work.pools}
        empty = {
            pool.name
            for pool in config.pools
            if pool.discovery is not None and not pool.targets and pool.name in answered
        }
        self._empty_since = {pool: self._empty_since.get(pool, now) for pool in empty}
        for pool, since in self._empty_since.items():
            text = (
                f"pool {pool} has had no target for {duration(now - since)}: its discovery gives none that match; "
                "pdwatch is blind on the whole pool"
            )
            yield ProblemState("pool_empty", None, since, text, "critical", pool=pool)
