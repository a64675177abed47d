"""When speculation stopped working, and when too little was drafted to say so."""

from __future__ import annotations

from agent.verdicts.drafting import drafting_problems
from agent.windows.increase import Increase
from tests.verdicts.pools import decoded, history_of, pool_with

END = 36_000.0


def drafted(drafts: float, accepted: float, *positions: float) -> Increase:
    gain = decoded(steps=drafts)
    gain.counters |= {
        ("spec_drafts", ""): drafts,
        ("spec_draft_tokens", ""): 3 * drafts,
        ("spec_accepted_tokens", ""): accepted,
        **{("spec_accepted_by_position", str(i)): n for i, n in enumerate(positions)},
    }
    return gain


def codes(now: Increase, before: Increase | None = None) -> list[str]:
    minutes = [before or drafted(0, 0)] * 75
    found = drafting_problems(pool_with(now), history_of(minutes, END), END - 300, END)
    return [problem.code for problem in found]


def test_drafts_of_which_none_is_accepted_are_overhead() -> None:
    assert codes(drafted(4800, 0)) == ["speculation_ineffective"]


def test_no_drafts_or_too_few_are_no_verdict() -> None:
    assert codes(drafted(0, 0)) == []
    assert codes(drafted(300, 0)) == []


def test_a_collapse_is_measured_against_the_pools_own_hour() -> None:
    good = drafted(1000, 1400)
    assert codes(drafted(4000, 1200), good) == ["speculation_collapsed"]
    assert codes(drafted(4000, 5000), good) == []


def test_a_later_position_that_is_never_accepted_is_named() -> None:
    (problem,) = drafting_problems(
        pool_with(drafted(5000, 4010, 4000, 10, 0)), history_of([drafted(0, 0)] * 75, END), END - 300, END
    )
    assert problem.severity == "info"
    assert problem.evidence["position"] == 1
