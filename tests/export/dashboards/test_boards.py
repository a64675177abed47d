"""What each board is made of: nothing that ties it to one Grafana, nothing that leads nowhere."""

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from grafana_foundation_sdk.builders import bargauge, dashboard, heatmap, stat, statetimeline, table
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from agent.config import Links, Objective, load_config
from agent.export import rules
from agent.export.dashboards import portable
from agent.export.dashboards.write import dashboard_files, default_config
from agent.export.rules.identity import OWN_RULES
from agent.verdicts.alert_rules import ALERT_RULES
from tests.export.dashboards.made import Json, boards, panels, queries
from tests.export.dashboards.walker import faults

GRAFANA_10_OPTIONS = {
    "timeseries": {"legend", "tooltip", "timezone"},
    "stat": {"colorMode", "graphMode", "justifyMode", "orientation", "reduceOptions", "text", "textMode"},
    "table": {"cellHeight", "frameIndex", "showHeader", "showTypeIcons", "sortBy"},
    "state-timeline": {"alignValue", "legend", "mergeValues", "rowHeight", "showValue", "timezone", "tooltip"},
    "bargauge": {
        "displayMode", "minVizHeight", "minVizWidth", "orientation", "reduceOptions", "showUnfilled", "text",
        "valueMode",
    },
    "heatmap": {
        "calculate", "calculation", "cellGap", "cellRadius", "cellValues", "color", "exemplars", "filterValues",
        "legend", "rowsFrame", "showValue", "yAxis",
    },
}  # fmt: skip

RUNBOOKS = Path(rules.__file__).with_name("runbooks.md")

each_board = pytest.mark.parametrize("word", boards())


@each_board
def test_nothing_ties_a_board_to_one_grafana(word: str) -> None:
    board = boards()[word]
    assert list(faults(board)) == []
    assert board["uid"] == f"pdwatch-{word}"
    assert 8 <= len(board["uid"]) <= 40
    assert not re.search(r"\$\{DS_|\[\[", str(board))


def test_the_walker_sees_what_is_wrong_with_a_board_of_somebody_s_grafana() -> None:
    board = {
        "panels": [{"type": "graph", "datasource": {"type": "prometheus", "uid": "abc123xyz"}}],
        "templating": {"list": [{"name": "model_name", "type": "query", "query": "label_values(model_name)"}]},
        "__inputs": [{"name": "DS_PROMETHEUS"}],
    }
    assert list(faults(board)) == [
        "__inputs belongs to one Grafana",
        "no stable uid",
        "no variable for the data source",
        "panel of kind graph",
        "panel None has a data source of its own",
        "variable model_name has a data source of its own",
        "variable model_name is filled from others' metrics",
        "variable model_name does not allow All, or is not safe in a pattern",
        "variable model_name does not follow the time range",
    ]


def test_uids_and_titles_are_unique() -> None:
    assert len({board["uid"] for board in boards().values()}) == len(boards())
    assert len({board["title"] for board in boards().values()}) == len(boards())


@each_board
def test_only_fields_that_grafana_10_has(word: str) -> None:
    board = boards()[word]
    assert board["schemaVersion"] == 38
    for panel in panels(board):
        assert set(panel["options"]) <= GRAFANA_10_OPTIONS[panel["type"]], panel["title"]
    for one in board["templating"]["list"]:
        assert not {"allowCustomValue", "staticOptions", "auto", "auto_min", "auto_count"} & set(one)
    links = [*board["links"], *board["annotations"]["list"]]
    links += [link for panel in panels(board) for link in panel.get("links", [])]
    assert not any("placement" in link for link in links)


def test_what_is_left_out_is_what_grafana_takes_by_itself() -> None:
    made = {"stat": stat, "bargauge": bargauge, "state-timeline": statetimeline, "heatmap": heatmap, "table": table}
    for kind, module in made.items():
        options = encoded(module.Panel().build())["options"]
        later = portable.LATER_OPTIONS[kind]
        assert {name: options[name] for name in later} == later
    variable = encoded(dashboard.QueryVariable("x").build())
    assert {name: variable[name] for name in portable.LATER_VARIABLE_FIELDS} == portable.LATER_VARIABLE_FIELDS


def test_a_later_field_with_a_value_of_its_own_is_not_lost_in_silence() -> None:
    with pytest.raises(ValueError, match="wideLayout"):
        portable.portable(
            {
                "panels": [{"type": "stat", "options": {"wideLayout": False}}],
                "links": [],
                "annotations": {"list": []},
                "templating": {"list": []},
            }
        )


@each_board
def test_panels_have_ids_of_their_own_and_do_not_overlap(word: str) -> None:
    placed = boards()[word]["panels"]
    assert [panel["id"] for panel in placed] == list(range(1, len(placed) + 1))
    for panel in placed:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations((panel["gridPos"] for panel in placed), 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above


@each_board
def test_a_variable_of_several_values_is_only_used_as_a_pattern(word: str) -> None:
    board = boards()[word]
    several = {one["name"] for one in board["templating"]["list"] if one.get("multi")}
    for asked in queries(word):
        for name in several:
            for found in re.finditer(rf'(=~|=|!=|!~)"[^"]*\$(?:\{{{name}\}}|{name}\b)[^"]*"', asked.expr):
                assert found[1] == "=~", asked.name


@each_board
def test_links_lead_to_boards_and_runbooks_that_exist(word: str) -> None:
    board = boards()[word]
    tags = {tag for one in boards().values() for tag in one["tags"]}
    assert [link["type"] for link in board["links"]] == ["dashboards", "dashboards"]
    for link in board["links"]:
        assert set(link["tags"]) <= tags
        assert link["includeVars"]
        assert link["keepTime"]
    uids = {one["uid"] for one in boards().values()}
    anchors = {name.lower() for name in re.findall(r"^#+ (PDWatch\w+)", RUNBOOKS.read_text(encoding="utf-8"), re.M)}
    for panel in panels(board):
        for link in panel.get("links", []):
            if link["url"].startswith("/d/"):
                assert link["url"].removeprefix("/d/").partition("?")[0] in uids
            else:
                base, _, anchor = link["url"].partition("#")
                assert base == "${runbooks}"
                assert anchor in anchors


def test_the_boards_that_alerts_lead_to_exist() -> None:
    uids = {one["uid"] for one in boards().values()}
    assert {f"pdwatch-{rule.board}" for rule in (*ALERT_RULES.values(), *OWN_RULES.values())} <= uids


@each_board
def test_alerts_restarts_and_deployments_are_marked(word: str) -> None:
    board = boards()[word]
    assert [one["name"] for one in board["annotations"]["list"]] == ["Alerts that fire", "Restarts", "Deployments"]
    assert all(one["enable"] for one in board["annotations"]["list"])


@each_board
def test_every_panel_says_what_it_means_when_there_is_nothing(word: str) -> None:
    for panel in panels(boards()[word]):
        assert panel["fieldConfig"]["defaults"]["noValue"], panel["title"]


def test_the_committed_boards_are_those_that_are_generated(repository: Path) -> None:
    folder = repository / "dashboards"
    files = dashboard_files(default_config())
    committed = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.suffix in (".json", ".yml")}
    assert set(committed) == set(files), "make generated"
    for name, text in files.items():
        assert committed[name].read_text(encoding="utf-8") == text, f"{name}: make generated"


def test_boards_are_the_same_text_each_time_for_every_deployment_with_the_default_objectives(repository: Path) -> None:
    example = load_config(repository / "alerts" / "pdwatch.yaml", {})
    assert example.deployment is not None
    assert dashboard_files(example) == dashboard_files(default_config()) == dashboard_files(default_config())


def test_targets_links_and_prefix_are_those_of_the_configuration() -> None:
    config = default_config()
    ttft = replace(config.objectives[0], name="a.b/c", target=4.0)
    share = Objective(
        indicator="tpot", scope="decode", target=0.05, name="fast", statistic="share", objective_ratio=0.95
    )
    links = Links(runbooks="https://books.example/pd", dashboards=None)
    changed = replace(config, objectives=(ttft, share), links=links, prefix="kserve_")
    files = dashboard_files(changed)
    overview = json.loads(files["overview.json"])
    assert "https://books.example/pd" in str(overview["templating"])
    assert 'objective=~\\"a[.]b/c\\"' in files["overview.json"]
    tile = next(panel for panel in panels(overview) if panel["title"] == "First token, mean now")
    edges = [step["value"] for step in tile["fieldConfig"]["defaults"]["thresholds"]["steps"]]
    assert edges == [None, 4.0 * 0.95, 4.0]
    assert "objective:pdwatch_tpot_bad_ratio:low3d" in files["overview.json"]
    assert "kserve_vllm:num_requests_running" in files["vllm-decode.json"]


def test_an_objective_that_nobody_can_break_leaves_the_boards_whole() -> None:
    assert set(dashboard_files(replace(default_config(), objectives=()))) == set(dashboard_files(default_config()))


def encoded(value: object) -> Json:
    found: Json = json.loads(JSONEncoder().encode(value))
    return found
