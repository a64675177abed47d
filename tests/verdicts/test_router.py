"""Problems of the router in front: a warning while it cannot be read, a page when nothing arrives any more."""

from __future__ import annotations

from agent.indicators.pools import TargetFacts, pool_facts
from agent.verdicts.router import router_problems
from agent.windows.history import PoolHistory
from agent.windows.target import TargetWindow


def test_a_router_that_does_not_answer_is_a_warning_even_when_all_of_it_is_gone():
    window = TargetWindow(900.0)
    window.failed(100.0, "refused")
    target = TargetFacts(window, window.increases(0.0, 200.0), False, None, ())
    found = router_problems(pool_facts("router", "router", None, {"r": target}), PoolHistory(), 200.0, 15.0)
    assert {problem.code for problem in found} == {"unreachable"}
    assert {problem.target for problem in found} == {"r", ""}
    assert {problem.severity for problem in found} == {"warning"}
