"""Every query against a real Prometheus that has seen the shipped recording: none is empty without a reason.

The live demo and longer recordings take minutes: `python -m bench.panels` holds the same for them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.export.dashboards.answers import ALL_SEEN, RECORDING
from agent.export.dashboards.panel_table import panel_table, replaced
from agent.outputs.metrics import render
from agent.outputs.samples import samples
from tests.export.dashboards.asking import without_answer
from tests.export.dashboards.made import boards, queries
from tests.export.dashboards.played import Server, config, grown, observations, play, recorded
from tests.export.dashboards.variables import VALUES, filled
from tests.outputs import fleet
from tests.outputs.test_metrics_page import all_known

START = 1_795_970_000.0

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="prometheus is not installed"
)


class Played(NamedTuple):
    server: Server
    start: float
    end: float


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    seen = observations()
    start, end = seen[0].t, seen[-1].t
    server = Server(tmp_path_factory.mktemp("prometheus"))
    server.add(play(config(), seen))
    with server.running():
        lines = list(recorded(server, config(), start, end))
    server.add(lines)
    with server.running():
        yield Played(server, start, end)


def test_every_query_has_an_answer_or_a_reason_not_to(played: Played) -> None:
    empty = without_answer(played.server, played.start, played.end)
    assert sorted(empty - set(RECORDING.empty)) == [], "empty without a reason"
    assert sorted(set(RECORDING.empty) - empty) == [], "a reason for what has an answer"


def test_reasons_speak_of_queries_that_exist() -> None:
    asked = {query.key for query in queries()}
    for seen in ALL_SEEN:
        assert set(seen.empty) <= asked, seen.word


def test_what_is_empty_on_the_recording_has_an_answer_where_everything_is_known(tmp_path: Path) -> None:
    """Each metric of the catalogue has a value here (of percentiles only the median), so the queries are right."""
    page = render(samples(all_known(fleet.snapshot(fleet.live()))))[0].decode()
    server = Server(tmp_path, lookback_seconds=90.0)
    server.add(grown(page, START, 150, 60.0))
    empty = []
    with server.running():
        for asked in queries():
            if any(asked.key in seen.empty for seen in ALL_SEEN):
                expr = filled(asked.expr, {**VALUES, "percentile": "p50"})
                if not server.matrix(expr, START, START + 9000, 300):
                    empty.append(asked.name)
    assert empty == []


def test_legends_tell_the_series_of_a_panel_apart(played: Played) -> None:
    """A curve that cannot be named cannot be read. (Panels that repeat for each pool have one pool each.)"""
    for asked in queries():
        if asked.panel["type"] in ("table", "heatmap"):
            continue
        values = {**VALUES, "pool": "decode"} if asked.panel.get("repeat") else VALUES
        target = next(one for one in asked.panel["targets"] if one["refId"] == asked.letter)
        if asked.panel.get("repeat") == "process":
            continue
        series = played.server.matrix(filled(asked.expr, values), played.start, played.end, 120)
        legends = [legend(target.get("legendFormat", ""), one["metric"]) for one in series]
        assert len(legends) == len(set(legends)), (asked.name, sorted(legends))


def test_annotations_mark_the_restart_and_the_alert_of_the_recording(played: Played) -> None:
    for word in ("overview", "vllm-overview"):
        found = {
            one["name"]: played.server.matrix(filled(one["expr"]), played.start, played.end)
            for one in boards()[word]["annotations"]["list"]
        }
        assert {one["metric"]["target"] for one in found["Restarts"]} == {"prefill-1"}, word
        assert found["Alerts that fire"], word


def test_the_broken_promise_of_the_recording_is_seen_by_both_families(played: Played) -> None:
    for word in ("overview", "vllm-overview"):
        now = next(asked for asked in queries(word) if asked.panel["title"] == "Now")
        found = {
            (one["metric"]["objective"], one["metric"]["scope"]): {float(value) for _, value in one["values"]}
            for one in played.server.matrix(filled(now.expr), played.start, played.end)
        }
        broken = 5.0 if word == "overview" else 1.0
        assert broken in found["ttft", "system"], word


def test_the_parts_of_the_waterfall_are_the_time_to_the_first_token(played: Played) -> None:
    """Never more than the whole; what a clamp hides (failed requests, clocks) may be missing from it."""
    whole = played.server.matrix("pdwatch_system_ttft_mean_seconds", played.start, played.end)[0]
    parts = [asked.expr for asked in queries("prefill") if asked.panel["title"] == "Waterfall over time"]
    summed = " + on (deployment) ".join(f"({filled(expr)})" for expr in parts)
    (found,) = played.server.matrix(summed, played.start, played.end)
    times = dict(found["values"])
    both = [(float(value), float(times[t])) for t, value in whole["values"] if t in times]
    assert len(both) >= 20
    for ttft, stack in both:
        assert stack == pytest.approx(ttft, rel=0.15)


def test_the_table_of_panels_in_the_documents_is_made_anew(repository: Path) -> None:
    document = (repository / "docs" / "dashboards.md").read_text(encoding="utf-8")
    assert panel_table() in document, "make generated"
    assert replaced(document) == document


def legend(form: str, labels: dict[str, str]) -> str:
    """As Grafana writes it."""
    import re

    return (
        re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), form) if form else str(sorted(labels.items()))
    )
