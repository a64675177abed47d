"""Every incident of the library: what is sent, when, in which words. And a quiet day: nothing is."""

from __future__ import annotations

import pytest

from agent.demo import INCIDENTS
from tests.incidents.document import documented, table
from tests.incidents.library import CASES, Case, played
from tests.incidents.quiet import quiet

CALLING = [case for case in CASES if case.pages or case.tickets]


def title(case: Case) -> str:
    return case.title


@pytest.mark.parametrize("case", CASES, ids=title)
def test_an_incident_sends_the_expected_pages_and_tickets_each_once(case: Case):
    seen = played(case.title)
    assert seen.pages == case.pages
    assert seen.tickets == case.tickets


@pytest.mark.parametrize("case", CALLING, ids=title)
def test_an_incident_is_told_after_it_began_and_in_time(case: Case):
    seconds = played(case.title).seconds_to_first
    assert seconds is not None
    assert 0 < seconds <= case.page_within_seconds


@pytest.mark.parametrize("case", CALLING, ids=title)
def test_the_first_alert_names_what_happened(case: Case):
    assert case.named
    assert case.named in played(case.title).said


def test_a_page_for_what_is_over_is_taken_back():
    for name in ("frozen engine", "transfer stall", "rollout of pools with one server"):
        seen = played(name)
        assert all(sent.ended_at is not None for sent in seen.sent if sent.is_page), name


def test_every_fault_without_a_leak_is_in_the_library_and_calls_somebody():
    faults = {name for name, incident in INCIDENTS.items() if incident.is_fault} - {"leak"}
    assert {case.incident for case in CALLING} >= faults
    assert {case.incident for case in CASES} == set(INCIDENTS) - {"leak"}


def test_a_quiet_day_with_a_rollout_sends_nothing():
    day = quiet(1, interval_seconds=120.0)
    assert [sent.about for sent in day.sent] == []
    assert day.restarts == 4
    assert day.requests > 5000


def test_the_document_shows_the_table_as_played():
    assert documented() == table()
