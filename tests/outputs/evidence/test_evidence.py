"""Bundles: what is in them, that they stay bounded, and that nothing else is ever served."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agent.config import Alerting, Config, Slack, config_from_names
from agent.model import FailureObservation, Observation, PageObservation, ProcessesObservation, ProcessSample
from agent.outputs.evidence import Evidence, RecentObservations, add_evidence_routes
from agent.outputs.evidence.course import Course
from agent.outputs.evidence.report import chart
from agent.outputs.evidence.shelf import FILES, Shelf, bundle_name
from agent.sources.recordings import SHIPPED_RECORDING, read_recording
from agent.state import State
from agent.watch import Watch
from tests.outputs.delivery.pagers import T, alert

NAMES = {"prefill-0", "prefill-1", "decode-0"}


def configured() -> Config:
    alerting = Alerting(slack=Slack(url="https://hooks.slack.example/services/verysecret"))
    return replace(config_from_names(NAMES), deployment="glm", alerting=alerting)


@pytest.fixture(scope="module")
def observed() -> list[Observation]:
    """The beginning of the real recording."""
    return list(islice(read_recording([SHIPPED_RECORDING]), 400))


@pytest.fixture(scope="module")
def state(observed: list[Observation]) -> State:
    config = config_from_names({o.target for o in observed})  # type: ignore[union-attr]
    watch = Watch(config)
    for observation in observed:
        watch.observe(observation)
    return watch.state(observed[-1].t)


async def fired(evidence: Evidence, state: State, at: float = T, objective: str = "tpot", began: float = T) -> None:
    await evidence.follow([alert(objective, began=began)], replace(state, at=at))


async def test_a_bundle_holds_all_that_is_needed_and_its_recording_plays(
    tmp_path: Path, observed: list[Observation], state: State
) -> None:
    evidence = Evidence(configured(), tmp_path, ring=RecentObservations(keep_seconds=1e6, page_every_seconds=0.0))
    for observation in observed:
        evidence.observe(observation)
    evidence.note(replace(state, at=T - 900))
    evidence.note(replace(state, at=T - 60))
    await fired(evidence, state)
    (name,) = evidence.shelf.names()
    folder = tmp_path / "evidence" / name
    assert {path.name for path in folder.iterdir()} == set(FILES)
    played = list(read_recording([folder / "recording.jsonl.gz"]))
    assert [(o.t, o.target) for o in played] == [(o.t, o.target) for o in observed]  # type: ignore[union-attr]
    assert json.loads((folder / "state-before.json").read_text())["at"] == T - 900
    assert json.loads((folder / "state.json").read_text())["at"] == T
    memory = json.loads((folder / "memory.json").read_text())
    assert len(memory) == len(state.memory) > 0
    assert "verysecret" not in "".join(path.read_bytes().decode("utf-8", "replace") for path in folder.iterdir())
    report = (folder / "report.md").read_text()
    assert report.startswith("# A promise is broken: mean TPOT of decode.\n")
    assert "mean TPOT of decode is 30 ms &lt;promised 20 ms>." in report
    assert "▁" in report
    assert all(file in report for file in FILES)
    (told,) = evidence.annotated([alert()])
    assert told.annotations["evidence"] == str(folder)


async def test_what_fires_together_shares_a_bundle_and_what_fires_later_has_its_own(
    tmp_path: Path, state: State
) -> None:
    evidence = Evidence(configured(), tmp_path, url_base="https://watch.example/")
    alerts = [alert(), alert("ttft", began=T + 30), alert("e2e", began=T + 300)]
    for count, at in enumerate((T, T + 30, T + 300), start=1):
        await evidence.follow(alerts[:count], replace(state, at=at))
    first, second = evidence.shelf.names()
    places = [told.annotations["evidence"] for told in evidence.annotated(alerts)]
    assert places == [f"https://watch.example/evidence/{name}/report.md" for name in (first, first, second)]
    listed = json.loads((tmp_path / "evidence" / first / "alerts.json").read_text())
    assert [entry["labels"]["objective"] for entry in listed] == ["tpot", "ttft"]


async def test_after_a_restart_an_alert_that_goes_on_keeps_its_bundle_and_gets_no_second(
    tmp_path: Path, state: State
) -> None:
    first = Evidence(configured(), tmp_path)
    await fired(first, state)
    (told,) = first.annotated([alert()])
    second = Evidence(configured(), tmp_path)
    await fired(second, state, T + 900)
    assert second.annotated([alert()]) == (told,)
    assert second.written == 0


async def test_a_disk_that_fails_costs_the_bundle_and_not_the_page(tmp_path: Path, state: State) -> None:
    (tmp_path / "evidence").write_text("a file where a folder should be")
    evidence = Evidence(configured(), tmp_path)
    with pytest.raises(OSError, match="evidence"):
        await fired(evidence, state)
    (told,) = evidence.annotated([alert()])
    assert told.annotations["evidence"].startswith("could not be written")
    await fired(evidence, state)  # not tried again for the same incident


def test_bundles_are_bounded_in_number_and_size_and_the_newest_stays(tmp_path: Path) -> None:
    few = Shelf(tmp_path / "few", most_bundles=2)
    small = Shelf(tmp_path / "small", most_bytes=150)
    for second in range(4):
        name = bundle_name(alert(), T + second)
        few.put(name, {"report.md": [b"x"]})
        small.put(name, {"report.md": [b"x" * (100 if second < 3 else 1000)]})
    assert few.names() == [bundle_name(alert(), T + second) for second in (2, 3)]
    assert small.names() == [bundle_name(alert(), T + 3)]


def test_the_ring_is_bounded_in_time_and_bytes_and_thins_pages_only() -> None:
    page = "# TYPE a counter\na 1\n" * 10
    ring = RecentObservations(keep_seconds=60.0, page_every_seconds=10.0)
    for second in range(0, 300, 5):
        ring.add(PageObservation(T + second, "decode-0", page))
        ring.add(FailureObservation(T + second, "prefill-0", "timeout"))
    assert len(ring.recording()) == 13 + 6
    small = RecentObservations(most_bytes=500)
    for second in range(100):
        small.add(ProcessesObservation(T + second, "decode-0", (ProcessSample(1, "VLLM::EngineCore"),)))
    assert 0 < small.bytes <= 500
    off = RecentObservations(most_bytes=0)
    off.add(PageObservation(T, "decode-0", page))
    assert off.recording() == []


def test_a_chart_shows_low_and_high_and_what_is_not_known() -> None:
    points = [(T + i, value) for i, value in enumerate([0.0, None, 1.0, float("nan")])]
    assert chart(points) == "▁·█·"
    assert chart([(T, 5.0)] * 3) == "▁▁▁"
    assert len(chart([(T + i, float(i)) for i in range(1000)])) == 60
    assert chart([(T, None)]) == "·"


def test_the_course_keeps_one_state_a_minute_and_an_hour_of_points(state: State) -> None:
    course = Course()
    for second in range(0, 7200, 5):
        course.note(replace(state, at=T + second))
    assert {len(points) for points in course.series.values()} == {240}
    before = course.before(T + 7000)
    assert before is not None
    assert json.loads(before)["at"] == T + 6960
    oldest = course.before(0.0)
    assert oldest is not None
    assert json.loads(oldest)["at"] == T + 6300


async def test_only_files_of_bundles_are_served(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "evidence")
    name = bundle_name(alert(), T)
    shelf.put(name, {"report.md": [b"# Report"], "secret.txt": [b"no"]})
    (tmp_path / "evidence" / name / "state.json").symlink_to("/etc/hostname")
    (tmp_path / "outside.json").write_text("{}")
    app = web.Application()
    add_evidence_routes(app, shelf)
    async with TestClient(TestServer(app)) as client:
        found = await client.get(f"/evidence/{name}/report.md")
        assert (found.status, await found.text()) == (200, "# Report")
        assert found.headers["Content-Type"] == "text/markdown; charset=utf-8"
        assert name in await (await client.get("/evidence/")).text()
        for path in (
            f"{name}/secret.txt",
            f"{name}/state.json",
            f"{name}/memory.json",
            "../outside.json",
            "%2e%2e/outside.json",
            f"..%2f{name}/report.md",
            f"{name}/..%2f..%2foutside.json",
            f"{name}/%2e%2e%2foutside.json",
            ".hidden/report.md",
        ):
            assert (await client.get(f"/evidence/{path}")).status == 404, path
        assert (await client.post(f"/evidence/{name}/report.md")).status == 405
