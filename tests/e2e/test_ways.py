"""From a server's page to a person's pager by every way, with the real Prometheus and Alertmanager.

One play for all tests (`play.py` says what happens in it). Ends by the rules on pdwatch, a frozen engine's ends and an
Alertmanager that is down for two minutes take longer than a test should: `python -m bench.end_to_end`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.play import Played, play
from tests.e2e.programs import program
from tests.e2e.receiver import Labels
from tests.e2e.stage import DIRECT, LATE, PDWATCH, VLLM, WAYS, set_up

DOWN_SECONDS = 6.0
STILL_SECONDS = 55.0


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """What happened in the play; the programs run until the last test of this file."""
    program("prometheus")
    program("prometheus-alertmanager")
    with set_up(tmp_path_factory.mktemp("play")) as stage:
        yield play(stage, down_seconds=DOWN_SECONDS)


def identity(**labels: str) -> Labels:
    return frozenset(labels.items())


def breached(deployment: str) -> Labels:
    return identity(
        alertname="PDWatchObjectiveBreached",
        severity="critical",
        deployment=deployment,
        scope="decode",
        objective="tpot",
    )


FROZEN = identity(
    alertname="PDWatchEngineFrozen",
    severity="critical",
    deployment="two",
    scope="decode",
    code="engine_frozen",
    target="decode-0",
    engine="0",
)


@pytest.mark.parametrize("way", [DIRECT, VLLM])
def test_one_incident_is_one_page_and_one_end(played: Played, way: str) -> None:
    page, end = played.calls.of(way, "one")
    assert (page.status, end.status) == ("firing", "resolved")
    assert page.labels() == {breached("one")}
    assert end.labels() == set()
    assert end.labels("resolved") == {breached("one")}
    assert played.moments["slow"] < page.at < played.moments["healthy"] < end.at


def test_the_rules_on_pdwatch_make_one_page_too(played: Played) -> None:
    page = played.calls.of(PDWATCH, "one")[0]
    assert page.status == "firing"
    assert page.labels() == {breached("one")}
    assert played.calls.statuses(PDWATCH, "one").count("firing") == 1


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_an_incident_the_same_labels(played: Played, way: str) -> None:
    assert played.calls.identities(way, "one") == {breached("one")}
    assert played.calls.identities(way, "two") == {FROZEN}


@pytest.mark.parametrize("way", WAYS)
def test_an_incident_makes_no_ticket_beside_its_page(played: Played, way: str) -> None:
    assert played.calls.of(way, "one", "tickets") + played.calls.of(way, "two", "tickets") == []


@pytest.mark.parametrize("way", WAYS)
def test_deployments_with_the_same_pool_names_do_not_touch_each_other(played: Played, way: str) -> None:
    (page,) = played.calls.of(way, "two")
    assert page.status == "firing"
    assert page.group == {"deployment": "two"}
    # Nobody had seen the fleet before: that nothing moved for a minute is known after a minute.
    assert page.at - played.moments["frozen"] > STILL_SECONDS
    assert {alert["labels"]["deployment"] for alert in page.alerts} == {"two"}
    assert played.two_kept_firing


@pytest.mark.parametrize("way", [DIRECT, "webhook"])
def test_a_kill_in_the_middle_of_an_incident_loses_and_repeats_nothing(played: Played, way: str) -> None:
    page, end = played.calls.of(way, "killed")
    assert (page.status, end.status) == ("firing", "resolved")
    assert page.at < played.moments["killed"] < played.moments["begun again"] < end.at
    assert page.labels() == end.labels("resolved") == {breached("killed")}


def test_an_alertmanager_that_was_down_hears_of_the_page_and_of_the_end(played: Played) -> None:
    page, end = played.calls.of(LATE, "one")
    assert (page.status, end.status) == ("firing", "resolved")
    assert page.at > played.moments["back for firing"]
    assert end.at > played.moments["back for resolved"]
    assert page.labels() == end.labels("resolved") == {breached("one")}


def test_the_dead_mans_switch_of_the_rules_beats(played: Played) -> None:
    for way in (VLLM, PDWATCH):
        assert played.calls.of(way, "one", "heartbeat"), way
        assert {notice.status for notice in played.calls.of(way, "one", "heartbeat")} == {"firing"}, way
    assert played.calls.of(DIRECT, "one", "heartbeat") == []
