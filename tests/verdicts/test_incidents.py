"""From what fires to what is told: one incident, one page; nothing lost and nothing repeated over a restart."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Objective
from agent.errors import StateError
from agent.state import ProblemState, VerdictState
from agent.verdicts.alert import Alert
from agent.verdicts.alert_rules import ALERT_RULES, alert_rule
from agent.verdicts.incidents import Incidents
from agent.verdicts.problem_walks import SETTLE_SECONDS
from tests.verdicts.alarms import STEP, T, deployment, frozen, problem, verdict

QUIET = (verdict("ttft", "system", "ok"), verdict(status="ok"))
TTFT, TPOT = verdict("ttft", "system"), verdict()


def run(
    incidents: Incidents,
    seconds: float,
    problems: Sequence[ProblemState] = (),
    verdicts: Sequence[VerdictState] = QUIET,
    start: float = T,
) -> float:
    """Evaluates every `STEP` with the same things standing; returns the moment after."""
    now = start
    while now < start + seconds:
        incidents.evaluate(verdicts, problems, now)
        now += STEP
    return now


def active(incidents: Incidents) -> list[str]:
    return [alert.name for alert in incidents.alerts if alert.ends_at is None]


def settled() -> tuple[Incidents, float]:
    """One that has looked for long enough that what is not there is known not to be there."""
    incidents = Incidents(deployment())
    return incidents, run(incidents, SETTLE_SECONDS + STEP)


def test_a_breached_objective_has_the_labels_and_texts_of_the_contract() -> None:
    incidents = Incidents(deployment())
    firing = verdict(cause="acceptance_drop", since=T - 30)
    (alert,) = incidents.evaluate([firing], [], T, sentences={("tpot", "decode"): "mean TPOT is 30 ms"})
    assert alert.labels == {
        "alertname": "PDWatchObjectiveBreached",
        "severity": "critical",
        "deployment": "glm",
        "cluster": "west",
        "scope": "decode",
        "objective": "tpot",
    }
    assert alert.starts_at == T - 30
    assert alert.ends_at is None
    assert alert.annotations == {
        "summary": "A promise is broken: mean TPOT of decode.",
        "description": "mean TPOT is 30 ms.",
        "cause": "because of acceptance_drop",
        "runbook_url": "https://docs.example/runbooks.md#pdwatchobjectivebreached",
        "dashboard_url": "https://grafana.example/d/pdwatch-decode",
    }


def test_pending_is_never_told() -> None:
    incidents = Incidents(deployment())
    assert len(incidents.evaluate([verdict(status="pending")], [], T)) == 0


def test_a_frozen_engine_is_told_at_once_and_names_target_and_engine() -> None:
    incidents = Incidents(deployment())
    (alert,) = incidents.evaluate(QUIET, [frozen("3")], T)
    assert (alert.name, alert.severity) == ("PDWatchEngineFrozen", "critical")
    assert (alert.labels["target"], alert.labels["engine"], alert.labels["code"]) == ("decode-0", "3", "engine_frozen")


def test_a_warning_must_stand_for_its_hold_and_info_is_never_told() -> None:
    incidents = Incidents(deployment())
    lasting = [problem("local_recompute"), problem("restarted", severity="info")]
    now = run(incidents, 300, lasting)
    assert active(incidents) == []
    run(incidents, STEP, lasting, start=now)
    assert active(incidents) == ["PDWatchLocalRecompute"]


def test_a_whole_pool_that_is_gone_pages_after_a_minute_and_not_once_per_target() -> None:
    incidents = Incidents(deployment())
    gone = [problem("unreachable", "prefill", target=f"prefill-{n}") for n in range(2)]
    gone.append(problem("unreachable", "prefill", severity="critical"))
    now = run(incidents, 60, gone)
    assert active(incidents) == []
    run(incidents, 900, gone, start=now)
    assert active(incidents) == ["PDWatchPoolUnreachable"]


def test_leaks_of_several_ranks_are_one_page_for_their_pool() -> None:
    incidents = Incidents(deployment())
    leaks = [
        problem("memory_leak", None, "decode-0", str(rank), "critical", f"EngineCore_DP{rank} leaks")
        for rank in range(3)
    ]
    (alert,) = incidents.evaluate(QUIET, leaks, T)
    assert alert.labels["scope"] == "decode"
    assert not {"target", "engine", "process"} & alert.labels.keys()
    assert alert.annotations["description"] == "EngineCore_DP0 leaks; EngineCore_DP1 leaks; EngineCore_DP2 leaks."


def test_what_explains_a_broken_promise_is_attached_to_its_page_and_not_sent_beside_it() -> None:
    incidents = Incidents(deployment())
    fell = problem("speculation_collapsed", text="acceptance length fell from 2.4 to 1.1")
    broken = [QUIET[0], verdict(cause="acceptance_drop")]
    run(incidents, 900, [fell], broken)
    assert active(incidents) == ["PDWatchObjectiveBreached"]
    told = incidents.alerts[0]
    assert told.annotations["cause"] == "because of acceptance_drop; acceptance length fell from 2.4 to 1.1"
    (held,) = incidents.held_back.values()
    assert held.labels["alertname"] == "PDWatchSpeculationCollapsed"
    assert held.by == told.identity


def test_what_does_not_explain_it_is_told_beside_it() -> None:
    incidents = Incidents(deployment())
    leak = problem("memory_leak", severity="critical")
    broken = [QUIET[0], verdict(cause="acceptance_drop")]
    incidents.evaluate(broken, [leak, frozen()], T)
    assert set(active(incidents)) == {"PDWatchObjectiveBreached", "PDWatchMemoryLeak", "PDWatchEngineFrozen"}


def test_the_pool_that_complains_is_not_the_bottleneck_and_there_is_one_page() -> None:
    """Decode is full, prefill queues for it, and time to first token breaks: one cause, one page."""
    incidents = Incidents(deployment())
    standing = [problem("pool_imbalance", text="decode-bound"), problem("queue_buildup", "prefill", text="queue grows")]
    run(incidents, 1200, standing, [verdict("ttft", "system", cause="decode_wait"), QUIET[1]])
    assert active(incidents) == ["PDWatchObjectiveBreached"]
    cause = incidents.alerts[0].annotations["cause"]
    assert set(cause.split("; ")) == {"because of decode_wait", "decode-bound", "queue grows"}


def test_two_promises_broken_by_one_thing_that_stands_are_one_page() -> None:
    broken = [verdict("ttft", "system", cause="decode_wait"), verdict(cause="batch_growth")]
    incidents = Incidents(deployment())
    incidents.evaluate(broken, [problem("pool_imbalance")], T)
    assert active(incidents) == ["PDWatchObjectiveBreached"]
    apart = Incidents(deployment())
    apart.evaluate(broken, [], T)
    assert len(active(apart)) == 2


def test_a_promise_that_breaks_because_of_what_was_paged_already_does_not_page_again() -> None:
    incidents, now = settled()
    now = run(incidents, 120, [frozen()], start=now)
    now = run(incidents, 120, [frozen()], [TTFT, TPOT], start=now)
    assert active(incidents) == ["PDWatchEngineFrozen"]
    # The engine moves again; means over five minutes stay bad for a while, and that is no news either.
    now = run(incidents, 500, [], [TTFT, TPOT], start=now)
    assert active(incidents) == []
    run(incidents, 300, [], [TTFT, TPOT], start=now)
    assert active(incidents) == ["PDWatchObjectiveBreached"] * 2


def test_a_held_back_promise_that_is_met_again_is_not_told_while_its_clear_time_runs() -> None:
    incidents, now = settled()
    stalled = problem("kv_stalled", target="decode-0", engine="0", severity="critical")
    now = run(incidents, STEP, [stalled], start=now)
    now = run(incidents, 300, [stalled], [TTFT, QUIET[1]], start=now)
    assert active(incidents) == ["PDWatchKvStalled"]
    near = replace(TTFT, verdict="met")  # and not by enough for its clear time to end
    now = run(incidents, 1500, [], [near, QUIET[1]], start=now)
    assert active(incidents) == []
    run(incidents, STEP, [], [TTFT, QUIET[1]], start=now)
    assert active(incidents) == ["PDWatchObjectiveBreached"]


def test_what_was_told_stays_told_while_its_clear_time_runs() -> None:
    incidents, now = settled()
    now = run(incidents, STEP, [], [TTFT, QUIET[1]], start=now)
    run(incidents, 1500, [], [replace(TTFT, verdict="met"), QUIET[1]], start=now)
    assert active(incidents) == ["PDWatchObjectiveBreached"]


def test_a_problem_that_is_only_about_to_fire_is_not_attached() -> None:
    incidents = Incidents(deployment())
    fell = problem("speculation_collapsed", text="acceptance length fell")
    broken = [QUIET[0], verdict(cause="acceptance_drop")]
    now = run(incidents, 300, [fell], broken)
    assert incidents.alerts[0].annotations["cause"] == "because of acceptance_drop"
    run(incidents, STEP, [fell], broken, start=now)
    assert incidents.alerts[0].annotations["cause"] == "because of acceptance_drop; acceptance length fell"


def test_a_known_cause_that_the_frozen_engine_cannot_have_pages_by_itself() -> None:
    incidents = Incidents(deployment())
    incidents.evaluate(QUIET, [frozen()], T)
    incidents.evaluate([QUIET[0], verdict(cause="acceptance_drop")], [frozen()], T + STEP)
    assert len(active(incidents)) == 2


def test_a_ticket_holds_no_page_back_and_stays_open_beside_it() -> None:
    incidents = Incidents(deployment())
    slow = problem("latency_step_change")
    now = run(incidents, 400, [slow])
    assert active(incidents) == ["PDWatchLatencyStepChange"]
    run(incidents, 400, [slow], [QUIET[0], verdict(cause="graph_fallback")], start=now)
    assert set(active(incidents)) == {"PDWatchLatencyStepChange", "PDWatchObjectiveBreached"}


def test_a_sidecar_tells_only_what_it_alone_sees() -> None:
    incidents = Incidents(deployment(mode="sidecar"))
    standing = [
        frozen(),
        problem("unreachable", severity="critical"),
        problem("oom_imminent", None, "decode-0", None, "critical"),
    ]
    run(incidents, 600, standing, [TTFT, TPOT])
    assert active(incidents) == ["PDWatchOomImminent"]


def test_an_alert_that_ended_is_shown_with_its_end_for_15_minutes() -> None:
    incidents, now = settled()
    run(incidents, STEP, [frozen()], start=now)
    ended = run(incidents, 130, [], start=now + STEP) - STEP
    (alert,) = incidents.alerts
    assert alert.ends_at == pytest.approx(ended, abs=STEP)
    now = run(incidents, 890, [], start=ended + STEP)
    assert len(incidents.alerts) == 1
    run(incidents, 3 * STEP, [], start=now)
    assert len(incidents.alerts) == 0


def test_expired_leases_that_come_and_go_are_one_incident() -> None:
    incidents, now = settled()
    starts = set()
    for _ in range(6):
        now = run(incidents, 300, [problem("kv_expired")], start=now)
        now = run(incidents, 300, [], start=now)
        starts |= {alert.starts_at for alert in incidents.alerts}
    assert len(starts) == 1


def test_an_expired_lease_is_told_after_three_minutes_so_that_an_outage_is_told_first() -> None:
    incidents = Incidents(deployment())
    now = run(incidents, 180, [problem("kv_expired", "prefill")])
    assert active(incidents) == []
    run(incidents, STEP, [problem("kv_expired", "prefill")], start=now)
    assert active(incidents) == ["PDWatchKvExpired"]
    gone = problem("unreachable", severity="critical")
    outage = Incidents(deployment())
    run(outage, 600, [gone, problem("kv_expired", "prefill")])
    assert active(outage) == ["PDWatchPoolUnreachable"]


def test_a_target_that_does_not_answer_resolves_nothing() -> None:
    incidents, now = settled()
    now = run(incidents, STEP, [frozen()], start=now)
    blind = [problem("unreachable", target="decode-0")]
    now = run(incidents, 290, blind, start=now)
    assert active(incidents) == ["PDWatchEngineFrozen"]
    run(incidents, 180, [], start=now)
    assert active(incidents) == []


def test_a_restart_neither_loses_nor_repeats_nor_resolves() -> None:
    first, now = settled()
    now = run(first, 60, [frozen()], [TTFT, QUIET[1]], start=now)
    saved = json.loads(json.dumps(first.save()))
    before = {(alert.identity, alert.starts_at) for alert in first.alerts}
    second = Incidents(deployment())
    second.restore(saved)
    assert {(alert.identity, alert.starts_at) for alert in second.alerts} == before
    # Nothing is judged yet, no page has come, and the windows are too short to see a frozen engine.
    second.evaluate((), [problem("stale", target="decode-0")], now)
    now = run(second, 120, [], [], start=now + STEP)
    assert {(alert.identity, alert.starts_at) for alert in second.alerts if alert.ends_at is None} == before
    now = run(second, SETTLE_SECONDS, [], start=now)
    assert active(second) == []
    assert {(alert.identity, alert.starts_at) for alert in second.alerts} == before


def test_what_is_no_longer_configured_ends_after_a_restart() -> None:
    first = Incidents(deployment())
    first.evaluate([TPOT, verdict("ttft", "system")], [], T)
    saved = first.save()
    second = Incidents(deployment(Objective(indicator="ttft", scope="system", target=2.5)))
    second.restore(saved)
    second.evaluate([], [], T + STEP)
    assert [(alert.labels["objective"], alert.ends_at) for alert in second.alerts] == [
        ("ttft", None),
        ("tpot", T + STEP),
    ]


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"format": 1, "alerts": [{}], "held_back": [], "problems": []},
        {"format": 1, "alerts": [], "held_back": [{"labels": {}}], "problems": []},
        {"format": 1, "alerts": [], "held_back": [], "problems": None},
        {"format": 1, "alerts": [], "held_back": [], "problems": [{"code": "x"}]},
    ],
)
def test_damaged_alerts_are_refused_and_change_nothing(saved: dict[str, object]) -> None:
    incidents = Incidents(deployment())
    incidents.evaluate([TPOT], [], T)
    before = incidents.save()
    with pytest.raises(StateError):
        incidents.restore(saved)
    assert incidents.save() == before


def test_values_on_a_dancing_line_with_a_restart_are_one_trigger_and_one_end() -> None:
    """Flapping: the walk of the objective decides; here its result is told once and ended once."""
    statuses = ["pending", "ok"] * 4 + ["pending"] * 2 + ["firing"] * 4 + ["resolved"] * 3
    incidents = Incidents(deployment())
    told: list[tuple[str, bool]] = []
    for minute, status in enumerate(statuses):
        if minute == 10:
            saved = incidents.save()
            incidents = Incidents(deployment())
            incidents.restore(saved)
        incidents.evaluate([QUIET[0], verdict(status=status, since=T + 600)], [], T + 60 * minute)  # type: ignore[arg-type]
        told += [(alert.identity, alert.ends_at is not None) for alert in incidents.alerts]
    changes = [told[0], *(after for before, after in pairwise(told) if after != before)]
    assert [ended for _, ended in changes] == [False, True]
    assert len({identity for identity, _ in changes}) == 1


def test_two_pools_that_break_are_two_incidents() -> None:
    objectives = [Objective(name=f"tpot-{pool}", indicator="tpot", scope=pool, target=0.02) for pool in ("a", "b")]
    incidents = Incidents(deployment(*objectives))
    alerts = incidents.evaluate([verdict("tpot-a", "a"), verdict("tpot-b", "b")], [], T)
    assert len({alert.identity for alert in alerts}) == 2


@given(st.dictionaries(st.text(min_size=1), st.text()), st.randoms(use_true_random=False))
def test_the_identity_is_of_the_labels_alone_in_any_order(labels: dict[str, str], chance: object) -> None:
    items = list(labels.items())
    chance.shuffle(items)  # type: ignore[attr-defined]
    one, other = Alert(labels, T, {"summary": "a"}), Alert(dict(items), T + 5, {"cause": "b"}, T + 9)
    assert one.identity == other.identity
    assert Alert({**labels, "empty": ""}, T, {}).identity == one.identity or "empty" in labels


def test_names_are_unique_and_begin_as_promised() -> None:
    names = [rule.name for rule in ALERT_RULES.values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("PDWatch") for name in names)
    assert alert_rule("something_new").name == "PDWatchSomethingNew"


def test_a_killed_server_is_one_incident_that_the_dead_address_leads() -> None:
    incidents, now = settled()
    gone = (
        problem("unreachable", pool="prefill", target="prefill-1"),
        problem("process_unreadable", pool="prefill", target="prefill-1", text="target process not found"),
    )
    run(incidents, 20 * 60.0, gone, start=now)
    assert active(incidents) == ["PDWatchTargetUnreachable"]
    (alert,) = [alert for alert in incidents.alerts if alert.ends_at is None]
    assert "target process not found" in alert.annotations["cause"]


def test_a_pool_that_dies_while_its_frozen_engine_is_not_called_off_yet_is_told() -> None:
    incidents, now = settled()
    now = run(incidents, 240.0, [frozen("1")], start=now)
    now = run(incidents, 60.0, start=now)  # thawed; the alert is not called off yet
    dead = problem("unreachable", pool="decode", severity="critical")
    blind = problem("unreachable", pool="decode", target="decode-0")
    run(incidents, 150.0, [dead, blind], start=now)
    assert active(incidents) == ["PDWatchEngineFrozen", "PDWatchPoolUnreachable"]


def test_a_pool_that_goes_silent_by_its_frozen_engine_is_not_told_again() -> None:
    incidents, now = settled()
    now = run(incidents, 60.0, [frozen("1")], start=now)
    dead = problem("unreachable", pool="decode", severity="critical")
    blind = problem("unreachable", pool="decode", target="decode-0")
    run(incidents, 300.0, [frozen("1"), dead, blind], start=now)
    assert active(incidents) == ["PDWatchEngineFrozen"]
