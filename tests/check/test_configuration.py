"""What `check --offline` says: settings that contradict each other, keys that nobody knows, targets between edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.check import check
from agent.check.documents import problems_of_file
from agent.config import load_config
from agent.errors import ConfigError

POOLS = """
deployment: glm
pools:
  prefill: {role: prefill, gpus_per_target: 4, targets: [http://10.0.0.1:8000]}
  decode: {role: decode, gpus_per_target: 8, targets: [http://10.0.0.9:8000]}
"""


def offline(tmp_path: Path, text: str, *, readable: bool = True):
    file = tmp_path / "pdwatch.yaml"
    file.write_text(text, encoding="utf-8")
    return check(load_config(file, {}), None, is_readable=lambda _: readable)


def finding(report, code: str):
    found = [one for one in report.findings if one.code == code]
    assert len(found) == 1, report.findings
    return found[0]


def test_every_unknown_key_is_named_at_once_with_its_line_and_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(
        POOLS + "scrap: {interval: 5s}\nobjectives:\n- {indicator: ttft, scope: system, targt: 2s, wndow: 5m}\n"
        "alerting: {slack: {urll: x}}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load_config(file, {})
    problems = problems_of_file(str(file), {}, raised.value)
    assert [problem.removeprefix(str(file)) for problem in problems] == [
        ":6: scrap: unknown key; did you mean scrape?",
        ":8: objectives[0].targt: unknown key; did you mean target?",
        ":8: objectives[0].wndow: unknown key; did you mean window?",
        ":9: alerting.slack.urll: unknown key; did you mean url?",
    ]


def test_a_problem_of_another_kind_comes_after_the_unknown_keys(tmp_path: Path) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(POOLS.replace("role: decode", "role: decoder, rol: x"), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_config(file, {})
    problems = problems_of_file(str(file), {}, ConfigError("something else"))
    assert len(problems) == 2
    assert "rol: unknown key" in problems[0]
    assert problems[1] == "something else"
    assert problems_of_file(None, {}, raised.value) == [str(raised.value)]


def test_a_sound_configuration_has_notes_at_most(tmp_path: Path) -> None:
    report = offline(tmp_path, POOLS)
    assert report.exit_code == 0
    assert {one.level for one in report.findings} == {"info"}


def test_c14_a_share_whose_target_is_no_edge_names_the_neighbours_before_any_page_was_read(tmp_path: Path) -> None:
    report = offline(
        tmp_path,
        POOLS
        + "objectives:\n- {indicator: ttft, scope: decode, statistic: share, objective: 0.9, target: 0.3s}\n"
        + "- {name: b, indicator: ttft, scope: decode, statistic: share, objective: 0.95, target: 0.5s}\n",
    )
    found = finding(report, "target_not_on_bucket")
    assert found.level == "warning"
    assert found.where == ("objective ttft",)
    assert "between 0.25 s and 0.5 s (vLLM's default edges)" in found.text
    assert "promise 0.25 s or 0.5 s" in found.help
    assert report.exit_code == 1
    flag = finding(report, "custom_buckets").help
    assert flag.startswith('--custom-histogram-buckets \'{"time_to_first_token":[0.001,')
    assert ",0.25,0.3,0.5," in flag


def test_a_mean_needs_no_edge_and_is_only_noted(tmp_path: Path) -> None:
    found = finding(offline(tmp_path, POOLS), "target_not_on_bucket")
    assert found.level == "info"
    assert "between 0.01 s and 0.025 s" in found.text
    assert "mean is exact" in found.text


def test_an_objective_that_trusts_the_estimate_is_not_warned(tmp_path: Path) -> None:
    report = offline(
        tmp_path,
        POOLS + "objectives: [{indicator: tpot, scope: decode, statistic: p95, target: 20ms, certainty: likely}]\n",
    )
    assert finding(report, "target_not_on_bucket").level == "info"


def test_the_edges_of_kv_transfers_are_fixed_so_no_flag_is_offered(tmp_path: Path) -> None:
    report = offline(
        tmp_path, POOLS + "objectives: [{indicator: kv_transfer, scope: decode, statistic: p95, target: 60ms}]\n"
    )
    assert "custom_buckets" not in finding(report, "target_not_on_bucket").help
    assert "custom_buckets" not in [one.code for one in report.findings]


RECEIVER = "alerting: {path: rules, webhooks: [https://hooks.example/x]}\n"

SYSTEM_P95 = "objectives: [{indicator: ttft, scope: system, statistic: p95, target: 2.5s}]"

WEAK = [
    ("alerting: {path: rules}", "deployment: glm\n", "deployment_missing", "error"),
    (RECEIVER, "", "wired_twice", "warning"),
    ("", "", "nobody_paged", "info"),
    (
        "alerting: {alertmanagers: [{url: 'http://am:9093', auth: {bearer_token: x}}]}",
        "",
        "secret_over_http",
        "warning",
    ),
    (
        "alerting: {alertmanagers: [{url: 'https://am:9093', tls: {insecure_skip_verify: true}}]}",
        "",
        "tls_not_verified",
        "warning",
    ),
    (
        "objectives: [{indicator: tpot, scope: prefill, target: 20ms}]",
        "",
        "objective_not_applicable",
        "warning",
    ),
    (SYSTEM_P95, "", "percentile_not_composable", "warning"),
    (
        "scrape: {interval: 30s}\nobjectives: [{indicator: ttft, scope: system, target: 2.5s, window: 1m}]",
        "",
        "window_few_scrapes",
        "warning",
    ),
    ("objectives: [{indicator: ttft, scope: system, target: 2.5s, window: 3d}]", "", "history_not_kept", "info"),
    ("", ", gpus_per_target: 4", "gpus_unknown", "info"),
    ("", "  decode: {role: decode, gpus_per_target: 8, targets: [http://10.0.0.9:8000]}\n", "pool_missing", "warning"),
]


@pytest.mark.parametrize(("added", "removed", "code", "level"), WEAK, ids=[weak[2] for weak in WEAK])
def test_each_weakness_of_a_configuration_is_said(
    added: str, removed: str, code: str, level: str, tmp_path: Path
) -> None:
    assert removed in POOLS
    assert finding(offline(tmp_path, POOLS.replace(removed, "") + added), code).level == level


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("dispatch: concurrent\n" + SYSTEM_P95, "percentile_not_composable"),
        ("alerting: {alertmanagers: [{url: 'http://127.0.0.1:9093', auth: {bearer_token: x}}]}", "secret_over_http"),
        ("alerting: {alertmanagers: [{url: 'http://localhost:9093', auth: {bearer_token: x}}]}", "secret_over_http"),
        ("alerting: {alertmanagers: [{url: 'https://am:9093', auth: {bearer_token: x}}]}", "secret_over_http"),
        ("alerting: {webhooks: [https://hooks.example/x]}", "wired_twice"),
        ("alerting: {webhooks: [https://hooks.example/x]}", "nobody_paged"),
    ],
)  # fmt: skip
def test_what_is_sound_is_not_said_to_be_weak(settings: str, code: str, tmp_path: Path) -> None:
    assert code not in [one.code for one in offline(tmp_path, POOLS + settings).findings]


def test_a_secret_file_that_cannot_be_read_is_an_error_with_its_key_path(tmp_path: Path) -> None:
    text = POOLS + "alerting: {pagerduty: {routing_key_file: key.txt}}\n"
    found = finding(offline(tmp_path, text, readable=False), "file_unreadable")
    assert found.level == "error"
    assert found.where == ("alerting.pagerduty.routing_key_file",)
    assert str(tmp_path / "key.txt") in found.text
    assert "file_unreadable" not in [one.code for one in offline(tmp_path, text).findings]
