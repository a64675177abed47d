"""What the state shows of the spans, and whether they are complete enough to be believed before anything composed.

In: a window's spans and histograms. Out: `RequestsState`.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.indicators.requests.compare import coverage
from agent.indicators.requests.view import SpansView
from agent.model import Role
from agent.requests_state import RequestsState
from agent.windows.increase import Increase

COMPLETE_FROM, COMPLETE_TO = 0.9, 1.1
"""Legs as spans over legs in the histograms, of each pool; the two windows' ends differ by a scrape."""
JOINED_FROM = 0.9
"""Whole requests over sound decode legs."""


def requests_state(
    view: SpansView, counts: Mapping[str, int], roles: Mapping[str, Role], totals: Mapping[str, Increase]
) -> RequestsState:
    """`roles`, `totals`: pool -> role, and what its histograms gained in the same window."""
    return RequestsState(
        since=view.since,
        until=view.until,
        joined=view.requests,
        complete=_complete(view, roles, totals),
        coverage={pool: coverage(view, pool, total) for pool, total in totals.items()},
        counts=counts,
        ttft=view.ttft(),
        tpot=view.tpot(),
        contract_ttft=view.ttft(contract=True),
        contract_tpot=view.tpot(contract=True),
        parts=view.parts(),
        bands=view.bands(),
        pairs=view.pairs(),
    )


def _complete(view: SpansView, roles: Mapping[str, Role], totals: Mapping[str, Increase]) -> bool:
    """Whether the joined requests stand for all: every pool's legs came, and nearly all found each other."""
    serving = 0
    for pool, total in totals.items():
        covered = coverage(view, pool, total)
        if covered is not None and not COMPLETE_FROM <= covered <= COMPLETE_TO:
            return False
        if roles[pool] != "prefill":
            serving += view.pool_sketch(pool, "e2e").count
    return serving > 0 and view.requests >= JOINED_FROM * serving
