"""Incidents by name: each runs once, ends when it is stopped, and of those that set the traffic the last one does."""

from __future__ import annotations

import pytest

from agent.demo import INCIDENTS, Fleet, small, start_incident
from agent.demo.switchboard import Switchboard
from agent.errors import ConfigError
from tests.demo.watched import START


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(small(), START)


def test_an_incident_runs_until_it_is_stopped(fleet: Fleet) -> None:
    board = Switchboard(fleet, {})
    board.start("kv-slow")
    board.start("kv-slow")
    fleet.advance(START + 3600)
    assert {name: it.since for name, it in board.running.items()} == {"kv-slow": START}
    assert fleet.conditions.transfer_factor == 40.0
    board.stop("kv-slow")
    board.stop("kv-slow")
    assert not board.running
    assert fleet.conditions.transfer_factor == 1.0


def test_options_are_those_of_the_board(fleet: Fleet) -> None:
    Switchboard(fleet, {"kv-slow": {"factor": 3.0}}).start("kv-slow")
    assert fleet.conditions.transfer_factor == 3.0


def test_an_unknown_name_is_refused_with_the_nearest(fleet: Fleet) -> None:
    board = Switchboard(fleet, {})
    with pytest.raises(ConfigError, match="did you mean 'rollout'"):
        board.start("rolout")
    with pytest.raises(ConfigError, match="there are leak, "):
        board.stop("zzz")


@pytest.mark.parametrize("name", INCIDENTS)
def test_every_incident_can_be_started_and_stopped(fleet: Fleet, name: str) -> None:
    board = Switchboard(fleet, {})
    board.start(name)
    fleet.advance(START + 600)
    assert set(board.running) == {name}
    board.stop(name)
    fleet.advance(START + 1200)
    assert not board.running


def test_the_last_one_that_sets_the_traffic_does(fleet: Fleet) -> None:
    board = Switchboard(fleet, {})
    board.start("quiet-night")
    fleet.advance(START + 1900)
    assert fleet.arrivals.rate_factor == 0.0
    board.stop("quiet-night")
    board.start("diurnal")
    assert set(board.running) == {"diurnal"}
    fleet.advance(START + 1900 + 7200)
    assert fleet.arrivals.rate_factor == 1.1, "the end of the quiet night must not come back"
    board.start("prefill-overload")
    assert set(board.running) == {"prefill-overload"}
    assert fleet.arrivals.night_share == fleet.topology.traffic.night_share
    board.stop("prefill-overload")
    assert fleet.arrivals.rate_factor == 1.0


def test_a_rollout_ends_by_itself(fleet: Fleet) -> None:
    board = Switchboard(fleet, {})
    board.start("rollout")
    assert board.running["rollout"].ends == START + 2 * (60 + 150 + 120)
    fleet.advance(START + 661)
    assert not board.running
    assert [server.lives for server in fleet.servers.values()] == [2, 2]


def test_a_rollout_that_is_stopped_goes_no_further_than_the_server_it_is_at(fleet: Fleet) -> None:
    board = Switchboard(fleet, {})
    board.start("rollout")
    fleet.advance(START + 30)
    board.stop("rollout")
    start_incident(fleet, "rollout", at=START + 40, targets=["prefill-0"])
    fleet.advance(START + 700)
    assert [server.lives for server in fleet.servers.values()] == [2, 1]
    assert all(server.takes_requests for server in fleet.servers.values())
