"""The live watch over targets that come and go: who was heard of, and that it forgets those that are gone."""

from __future__ import annotations

from agent.config import Config, config_from_names
from agent.model import FailureObservation
from agent.outputs.live import Live
from agent.watch import Watch


def fleet(number: int) -> Config:
    return config_from_names(["prefill-0", f"decode-{number}"])


def asked(live: Live, *targets: str) -> None:
    for target in targets:
        live.observe(FailureObservation(1000.0, target, "refused", ""))


def test_ready_again_once_the_target_that_came_was_asked_too() -> None:
    live = Live(Watch(fleet(0)), lambda: 1000.0, lambda: 0.0)
    asked(live, "prefill-0", "decode-0")
    assert live.ready
    live.retarget(fleet(1))
    assert not live.ready
    asked(live, "decode-1")
    assert live.ready


def test_names_of_targets_that_are_gone_or_were_never_named_are_not_kept() -> None:
    live = Live(Watch(fleet(0)), lambda: 1000.0, lambda: 0.0)
    for number in range(50):
        live.retarget(fleet(number))
        asked(live, "prefill-0", f"decode-{number}", f"stranger-{number}")
    assert live._heard == {"prefill-0", "decode-49"}


def test_a_target_that_comes_back_is_to_be_asked_again() -> None:
    live = Live(Watch(fleet(0)), lambda: 1000.0, lambda: 0.0)
    asked(live, "prefill-0", "decode-0")
    live.retarget(fleet(1))
    live.retarget(fleet(0))
    assert not live.ready
