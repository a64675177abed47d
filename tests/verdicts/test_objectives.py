"""Objectives over whole histories: pages go in, verdicts, incidents and what survives a restart come out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.config import Contract, Objective, Scrape
from agent.errors import StateError
from agent.model import ClockStepObservation
from agent.verdicts.budgets import TierChange
from agent.verdicts.objectives import Change, Objectives
from tests.verdicts.servers import Fleet, Server

NO_FAMILY: frozenset[str] = frozenset()


def tpot(**changed: Any) -> Objective:
    plain: dict[str, Any] = {"indicator": "tpot", "scope": "decode", "target": 0.020}
    return Objective(**(plain | changed))


def ttft(**changed: Any) -> Objective:
    plain: dict[str, Any] = {"indicator": "ttft", "scope": "system", "target": 2.5}
    return Objective(**(plain | changed))


def incidents(fleet: Fleet, name: str = "tpot") -> list[tuple[float, str]]:
    """(seconds since the first round, what) for each incident that began or ended."""
    first = 1795970000.0
    return [
        (at - first, "fires" if change.step.triggered else "ends")
        for at, change in fleet.changes
        if change.objective.name == name and isinstance(change, Change)
    ]


def test_the_two_default_objectives_are_met_by_a_quick_fleet() -> None:
    prefill, decode = Server(), Server()
    fleet = Fleet(servers={"prefill-0": prefill, "decode-0": decode})
    for _ in range(8):
        fleet.round()
        prefill.prefilled(1.2, 5)
        decode.decoded(0.015, 5, ttft=0.4)
    verdicts = {name: fleet.verdict(name) for name in ("ttft", "tpot")}
    assert {name: verdict.word for name, verdict in verdicts.items()} == {"ttft": "met", "tpot": "met"}
    assert verdicts["ttft"].value == pytest.approx(1.6)
    assert verdicts["tpot"].value == pytest.approx(0.015)
    assert {state.status for state in fleet.objectives.states(fleet.now)} == {"ok"}


def test_a_breach_pages_once_after_the_hold_and_is_taken_back_once_after_the_clear() -> None:
    decode = Server()
    fleet = Fleet(tpot(window_seconds=60), servers={"decode-0": decode})
    for number in range(100):
        fleet.round()
        decode.decoded(0.050 if 20 <= number < 50 else 0.010, 10)
    # A breach shows when the slow requests outweigh the quick ones in the minute's window; then hold and clear.
    assert [what for _, what in incidents(fleet)] == ["fires", "ends"]
    fired, ended = (at for at, _ in incidents(fleet))
    assert 20 * 15 + 120 <= fired <= 20 * 15 + 120 + 60
    assert 50 * 15 + 300 <= ended <= 50 * 15 + 300 + 60 + 15


def test_no_traffic_neither_fires_nor_clears() -> None:
    decode = Server()
    fleet = Fleet(tpot(window_seconds=60), servers={"decode-0": decode})
    for _ in range(20):
        fleet.round()
        decode.decoded(0.050, 10)
    assert fleet.status("tpot") == "firing"
    for _ in range(240):
        fleet.round()
    assert fleet.verdict("tpot").word == "no_data"
    assert fleet.status("tpot") == "firing"
    assert [what for _, what in incidents(fleet)] == ["fires"]


def test_c22_every_fourth_scrape_failing_still_fires_after_the_hold() -> None:
    prefill = Server()
    promised = Objective(
        name="p95", indicator="ttft", scope="prefill", statistic="p95", target=2.5, hold_seconds=300, min_requests=5
    )
    fleet = Fleet(promised, servers={"prefill-0": prefill}, every=30.0, scrape=Scrape(interval_seconds=30.0))
    for number in range(24):
        fleet.round(failing=frozenset({"prefill-0"}) if number % 4 == 3 else NO_FAMILY)
        prefill.prefilled(9.0, 10)
    ((fired, what),) = incidents(fleet, "p95")
    assert what == "fires"
    assert 300 <= fired <= 360


def test_a_collapse_in_which_nothing_finishes_is_judged_on_the_live_mean() -> None:
    prefill, decode = Server(), Server(running=16)
    fleet = Fleet(tpot(), servers={"prefill-0": prefill, "decode-0": decode})
    for number in range(60):
        fleet.round()
        prefill.prefilled(1.0, 2)
        if number < 20:
            decode.decoded(0.010, 10)
        else:
            decode.steps(0.5, 16 * 30)
    verdict = fleet.verdict("tpot")
    assert (verdict.word, verdict.judged_on) == ("breached", "token_mean")
    assert "finished while tokens flow" in verdict.text
    assert fleet.status("tpot") == "firing"


def test_a_quiet_night_with_one_slow_request_calls_nobody() -> None:
    decode = Server(running=0)
    fleet = Fleet(tpot(), servers={"decode-0": decode})
    for number in range(120):
        decode.running = 1 if number % 40 < 10 else 0
        fleet.round()
        if decode.running:
            decode.steps(0.2, 75)
        if number % 40 == 9:
            decode.decoded(0.2, 1)
    assert fleet.changes == []
    assert fleet.verdict("tpot").word in ("insufficient_data", "no_data")


@pytest.mark.parametrize(
    ("prompt", "word"), [(30000, "breached"), (12000, "undecided"), (900, "no_data"), (220000, "undecided")]
)
def test_only_promised_prompt_lengths_are_judged(prompt: int, word: str) -> None:
    decode = Server()
    fleet = Fleet(tpot(), servers={"decode-0": decode})
    for _ in range(6):
        fleet.round()
        decode.decoded(0.050, 10, prompt=prompt)
    assert fleet.verdict("tpot").word == word


def test_a_share_of_outside_prompts_is_named_when_it_decides() -> None:
    decode = Server()
    fleet = Fleet(tpot(), servers={"decode-0": decode})
    for _ in range(6):
        fleet.round()
        decode.decoded(0.018, 8)
        decode.decoded(0.030, 2, prompt=15000)
    verdict = fleet.verdict("tpot")
    assert verdict.word == "undecided"
    assert "up to 20 % of requests may lie outside 16K-256K prompt tokens" in verdict.text
    assert verdict.value == pytest.approx(0.0204)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < 0.020 < verdict.high


def test_pages_without_prompt_lengths_are_judged_on_all_requests_and_say_so() -> None:
    decode = Server(without=frozenset({"prompt_tokens"}))
    fleet = Fleet(tpot(), servers={"decode-0": decode})
    for _ in range(6):
        fleet.round()
        decode.decoded(0.050, 10)
    assert fleet.verdict("tpot").word == "breached"
    assert "prompt lengths are not on the pages" in fleet.verdict("tpot").text


def test_lengths_of_decode_legs_that_just_began_are_those_of_the_prefill_legs() -> None:
    prefill, decode = Server(), Server()
    fleet = Fleet(ttft(), servers={"prefill-0": prefill, "decode-0": decode})
    for _ in range(6):
        fleet.round()
        prefill.prefilled(4.0, 10)
        decode.saw("ttft", 0.3, 10)
        decode.steps(0.010, 100)
    verdict = fleet.verdict("ttft")
    assert (verdict.word, verdict.judged_on) == ("breached", "leg_means")
    assert verdict.low == verdict.high == pytest.approx(4.3)


def test_windows_of_hours_come_from_the_pools_history_and_say_how_much_was_watched() -> None:
    decode = Server()
    fleet = Fleet(tpot(window_seconds=6 * 3600), servers={"decode-0": decode}, every=60.0)
    for _ in range(120):
        fleet.round()
        decode.decoded(0.050, 2)
    verdict = fleet.verdict("tpot")
    assert verdict.word == "breached"
    assert verdict.count > 200
    assert "of 6h were watched" in verdict.text


def test_a_rollout_in_which_fresh_servers_are_slow_at_first_calls_nobody() -> None:
    servers = {f"decode-{i}": Server() for i in range(3)}
    fleet = Fleet(tpot(), servers=servers)
    restarted = {20: "decode-0", 40: "decode-1", 60: "decode-2"}
    slow_until = dict.fromkeys(servers, -1)
    for number in range(100):
        if number in restarted:
            fleet.servers[restarted[number]] = Server()
            slow_until[restarted[number]] = number + 6
        fleet.round()
        for name, server in fleet.servers.items():
            server.decoded(0.250 if number <= slow_until[name] else 0.010, 5)
    assert fleet.changes == []
    assert fleet.status("tpot") == "ok"


def test_during_a_rollout_the_verdict_still_says_what_users_had() -> None:
    fleet = Fleet(tpot(), servers={"decode-0": Server()})
    words = []
    for number in range(40):
        if number == 10:
            fleet.servers["decode-0"] = Server()
        fleet.round()
        fleet.servers["decode-0"].decoded(0.250 if 10 <= number < 16 else 0.010, 5)
        words.append(fleet.verdict("tpot"))
    excused = [verdict for verdict in words if verdict.word == "breached"]
    assert excused
    assert {verdict.signal for verdict in excused} == {"unknown"}
    assert "servers in their first minutes" in excused[0].text


def test_a_fresh_server_that_stays_slow_is_not_excused() -> None:
    fleet = Fleet(tpot(), servers={"decode-0": Server()})
    for number in range(60):
        if number == 10:
            fleet.servers["decode-0"] = Server()
        fleet.round()
        fleet.servers["decode-0"].decoded(0.250 if number >= 10 else 0.010, 5)
    ((fired, what),) = incidents(fleet)
    assert what == "fires"
    assert fired >= 10 * 15 + 120 + 120


def test_what_a_server_did_before_it_started_again_is_not_excused() -> None:
    fleet = Fleet(tpot(min_requests=5), servers={"decode-0": Server()})
    for number in range(14):
        if number == 12:
            fleet.servers["decode-0"] = Server()
        fleet.round()
        fleet.servers["decode-0"].decoded(0.250 if 4 <= number < 12 else 0.010, 5)
    verdict = fleet.verdict("tpot")
    assert (verdict.word, verdict.signal) == ("breached", "bad")


def test_while_nothing_finishes_prompts_are_taken_to_be_as_long_as_before() -> None:
    decode = Server()
    fleet = Fleet(
        Objective(indicator="ttft", scope="decode", target=0.1, window_seconds=60), servers={"decode-0": decode}
    )
    for number in range(40):
        fleet.round()
        if number < 20:
            decode.decoded(0.010, 10)
        else:
            decode.saw("ttft", 5.0, 10)
            decode.steps(0.5, 10)
    assert fleet.verdict("ttft").word == "breached"


def test_a_server_seen_for_the_first_time_with_a_young_process_is_warming_up() -> None:
    decode = Server(started=1795970000.0 - 60)
    fleet = Fleet(tpot(window_seconds=60, min_requests=5), servers={"decode-0": decode})
    for _ in range(8):
        fleet.round()
        decode.decoded(0.250, 5)
    assert fleet.verdict("tpot").signal == "unknown"
    for _ in range(20):
        fleet.round()
        decode.decoded(0.250, 5)
    assert fleet.status("tpot") == "firing"


def test_an_incident_does_not_end_because_the_slow_target_fell_silent() -> None:
    quick, slow = Server(), Server()
    fleet = Fleet(tpot(window_seconds=120), servers={"decode-0": quick, "decode-1": slow})
    for number in range(80):
        fleet.round(failing=frozenset({"decode-1"}) if number >= 30 else NO_FAMILY)
        quick.decoded(0.010, 5)
        slow.decoded(0.100, 5)
        if number == 29:
            assert fleet.status("tpot") == "firing"
    ended = [at for at, what in incidents(fleet) if what == "ends"]
    # It ends when what the silent one did has left the window, and the rest was good for the clear time.
    assert len(ended) == 1
    assert ended[0] >= 29 * 15 + 120 + 300
    assert "without decode-1, silent now" in fleet.verdict("tpot").text


def test_killed_between_pending_and_firing_it_goes_on_and_pages_once() -> None:
    decode = Server()
    fleet = Fleet(tpot(window_seconds=60), servers={"decode-0": decode})
    restarts = 0
    for _ in range(20):
        fleet.round()
        decode.decoded(0.050, 10)
        if fleet.status("tpot") == "pending" and restarts < 4:
            saved = json.loads(json.dumps(fleet.objectives.save()))
            fleet.objectives = Objectives(fleet.config)
            fleet.objectives.restore(saved)
            restarts += 1
    assert restarts == 4
    (fired,) = incidents(fleet)
    assert fired == (45.0 - 15 + 120, "fires")


def test_saved_objectives_that_are_no_longer_configured_are_forgotten_and_new_ones_start_at_ok() -> None:
    fleet = Fleet(tpot(hold_seconds=0), servers={"decode-0": Server()})
    for _ in range(6):
        fleet.round()
        fleet.servers["decode-0"].decoded(0.050, 10)
    saved = fleet.objectives.save()
    other = Objectives(replace(fleet.config, objectives=(tpot(name="another"), tpot())))
    other.restore(saved)
    assert other.tracks["tpot", "decode"].status(fleet.now) == "firing"
    assert other.tracks["another", "decode"].status(fleet.now) == "ok"


@pytest.mark.parametrize(
    "damaged", [{}, {"format": 1, "tracks": "no"}, {"format": 1, "tracks": [3]}, {"format": 99, "tracks": []}]
)
def test_damaged_saved_objectives_are_refused_and_change_nothing(damaged: dict[str, Any]) -> None:
    objectives = Objectives(Fleet(tpot(), servers={"decode-0": Server()}).config)
    before = objectives.save()
    with pytest.raises(StateError):
        objectives.restore(damaged)
    assert objectives.save() == before


def test_a_clock_step_moves_hold_and_clear_along() -> None:
    decode = Server()
    fleet = Fleet(tpot(window_seconds=60), servers={"decode-0": decode})
    for number in range(20):
        if number == 8:
            fleet.watch.observe(ClockStepObservation(fleet.now, 3600.0))
            fleet.objectives.shift(3600.0)
            fleet.now += 3600.0
        fleet.round()
        decode.decoded(0.050, 10)
    ((fired, what),) = incidents(fleet)
    assert (fired, what) == (3600.0 + 45 - 15 + 120, "fires")


def test_an_objective_of_a_pool_that_is_not_there_is_not_applicable() -> None:
    fleet = Fleet(tpot(scope="elsewhere"), servers={"decode-0": Server()})
    fleet.round()
    assert fleet.verdict("tpot").word == "not_applicable"
    assert "no pool elsewhere" in fleet.verdict("tpot").text


def test_a_share_objective_has_burn_tiers_that_page_and_a_budget_that_is_left() -> None:
    prefill = Server()
    share = Objective(
        name="quick",
        indicator="ttft",
        scope="prefill",
        statistic="share",
        target=2.5,
        objective_ratio=0.95,
        min_requests=5,
    )
    fleet = Fleet(share, servers={"prefill-0": prefill}, every=60.0, contract=Contract((1, 262144)))
    for number in range(100):
        fleet.round()
        prefill.prefilled(5.0 if number >= 60 else 1.0, 3)
    at = {}
    for moment, change in fleet.changes:
        if isinstance(change, TierChange):
            assert change.step.triggered
            at[change.state.tier.name] = moment - 1795970000.0
    # The others need 108 min (medium), 3.6 h (slow and trickle) of a full outage, and have watched for less.
    assert set(at) == {"fast"}
    # fast: half an hour of a full outage over an hour; a minute slot and a scrape late at most
    assert 3600 + 1800 - 60 <= at["fast"] <= 3600 + 1800 + 120
    (state,) = fleet.objectives.budgets.states
    # 40 of 100 minutes were bad: a burn of 8, for 100 minutes of 30 days.
    assert state.left_high == state.left_low
    assert state.left_low == pytest.approx(1 - 8 * 6000 / (30 * 86400), abs=0.003)
    assert state.tiers[0].status == "firing"
    restored = Objectives(fleet.config)
    restored.restore(json.loads(json.dumps(fleet.objectives.save())))
    assert restored.budgets.save() == fleet.objectives.budgets.save()
    restored.shift(3600.0)
    fired = restored.budgets.save()[0]["fired_at"]
    assert fired == 1795970000.0 + at["fast"] + 3600.0
