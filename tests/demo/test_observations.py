"""Observations of the simulated fleet: the same seed gives the same, in order, as a scraper would see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.demo import Fleet, observations, small, start_incident, story
from agent.model import FailureObservation, PageObservation, ProcessesObservation
from agent.sources.recordings.reader import read_recording
from agent.sources.recordings.writer import RecordingWriter
from tests.demo.watched import START


def run(seed: int, incident: str | None = None) -> list[object]:
    fleet = Fleet(small(seed), START)
    if incident:
        start_incident(fleet, incident, at=START + 300, until=START + 900)
    return list(observations(fleet, START, START + 1800))


def test_the_same_seed_gives_the_same_observations_and_another_does_not():
    assert run(7) == run(7)
    assert run(7, "mtp-collapse") == run(7, "mtp-collapse")
    assert run(7) != run(8)


def test_looking_at_the_fleet_does_not_change_it():
    often, seldom = Fleet(story(), START), Fleet(story(), START)
    for second in range(1, 121):
        often.advance(START + second)
        often.page("prefill-1")
        often.processes("decode-0")
    seldom.advance(START + 120)
    assert often.page("prefill-1") == seldom.page("prefill-1")
    assert [r.first_token for r in often.requests] == [r.first_token for r in seldom.requests]


def test_observations_come_in_order_and_each_target_keeps_its_own_time():
    seen = list(observations(Fleet(story(), START), START, START + 120, 15.0, processes_interval_seconds=60.0))
    times = [observation.t for observation in seen]
    assert times == sorted(times)
    pages = [observation for observation in seen if isinstance(observation, PageObservation)]
    firsts = {page.target: page.t for page in reversed(pages)}
    assert len(set(firsts.values())) == 5
    assert all(len([p for p in pages if p.target == target]) == 8 for target in firsts)
    assert len([o for o in seen if isinstance(o, ProcessesObservation)]) == 10


def test_asked_together_all_targets_answer_for_the_same_moment():
    seen = list(observations(Fleet(small(), START), START, START + 60, together=True, processes_interval_seconds=None))
    assert [observation.t - START for observation in seen] == [0, 0, 15, 15, 30, 30, 45, 45, 60, 60]


def test_a_server_that_is_down_is_a_failure_and_has_no_processes():
    fleet = Fleet(small(), START)
    start_incident(fleet, "rollout", targets=["decode-0"], drain_seconds=0.0, down_seconds=60.0)
    seen = list(observations(fleet, START, START + 120, 5.0, processes_interval_seconds=5.0))
    failed = [observation for observation in seen if isinstance(observation, FailureObservation)]
    assert {failure.target for failure in failed} == {"decode-0"}
    assert 11 <= len(failed) <= 13
    readings = [o for o in seen if isinstance(o, ProcessesObservation) and o.target == "decode-0"]
    assert len({sample.pid for reading in readings for sample in reading.processes}) == 8
    assert min(reading.t for reading in readings) >= START + 60


def test_observations_survive_a_recording(tmp_path: Path):
    path = tmp_path / "demo.jsonl.gz"
    seen = list(observations(Fleet(small(), START), START, START + 60))
    with RecordingWriter(path) as writer:
        for observation in seen:
            writer.write(observation)
    read = list(read_recording([path]))
    assert [(type(o), o.t) for o in read] == [(type(o), o.t) for o in seen]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_processes_are_titled_as_vllm_titles_them(role: str):
    fleet = Fleet(story(), START)
    reading = fleet.processes(f"{role}-0")
    kinds = [sample.kind for sample in reading.processes]
    engines = 4 if role == "prefill" else 8
    assert kinds.count("engine_core") == kinds.count("worker") == engines
    assert kinds.count("api_server") == (0 if role == "prefill" else 8)
    assert {s.engine for s in reading.processes if s.kind == "worker"} == {str(rank) for rank in range(engines)}
    assert reading.cgroup is not None
    assert reading.cgroup.limit_bytes is not None
    assert (reading.cgroup.anon_bytes or 0) < 0.6 * reading.cgroup.limit_bytes
