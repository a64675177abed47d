"""The rules as the real promtool sees them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config import Objective
from agent.export.rules.families import vllm_family
from agent.export.rules.prometheus import rule_file
from agent.export.rules.trials.days import day_trials
from agent.export.rules.trials.promtool import trial_file
from tests.export.rules.conftest import Running
from tests.export.rules.made import (
    CONFIGS,
    RULE_FILES,
    TEST_FILES,
    alerts,
    files,
    parsed,
    ran,
    story,
    tool,
    written,
)


@pytest.mark.parametrize("name", TEST_FILES)
def test_every_committed_trial_fires_what_it_says_and_nothing_else(name: str, trials: Running) -> None:
    tool("promtool")
    output, _ = trials[name].communicate()
    assert trials[name].returncode == 0, output


@pytest.mark.parametrize("name", CONFIGS)
def test_rule_files_and_the_example_are_valid(name: str, tmp_path: Path) -> None:
    promtool = tool("promtool")
    folder = written(tmp_path, files(name))
    done = ran([promtool, "check", "rules", *RULE_FILES], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    done = ran([promtool, "check", "config", "prometheus-example.yml"], folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_of_the_story_fires_in_a_trial() -> None:
    played: set[tuple[str, str]] = set()
    for name in TEST_FILES:
        family = name.split("-", maxsplit=1)[0]
        for trial in parsed(files()[name])["tests"]:
            for check in trial["promql_expr_test"]:
                for sample in check["exp_samples"]:
                    played.add((family, sample["labels"].partition('alertname="')[2].partition('"')[0]))
    for file in RULE_FILES:
        family = file.split("-", maxsplit=1)[0]
        names = {alert["alert"] for alert in alerts(files()[file])} - {"PDWatchDeadMan"}
        assert names - {name for of, name in played if of == family} == set()


def test_every_trial_has_a_moment_at_which_nothing_fires() -> None:
    for name in TEST_FILES:
        for trial in parsed(files()[name])["tests"]:
            assert any(not check["exp_samples"] for check in trial["promql_expr_test"]), trial["name"]


SHARES = {
    "a sum of legs": Objective(
        name="first", indicator="ttft", scope="system", target=5.0, statistic="share", objective_ratio=0.95
    ),
    "between two edges": Objective(
        name="token", indicator="tpot", scope="decode", target=0.02, statistic="share", objective_ratio=0.99
    ),
}


@pytest.mark.parametrize("name", SHARES)
def test_each_severity_of_a_budget_fires_when_the_arithmetic_says(name: str, tmp_path: Path) -> None:
    config = replace(story(), objectives=(SHARES[name],))
    trials = [trial for trial in day_trials(config) if "Burn" in trial.name]
    assert {fired.alert.labels["severity"] for trial in trials for check in trial.checks for fired in check.fired} == {
        "critical",
        "warning",
    }
    made = {"rules.yml": rule_file(vllm_family(config)), "rules_test.yml": trial_file(trials, "rules.yml", 300.0, "")}
    done = ran([tool("promtool"), "test", "rules", "rules_test.yml"], written(tmp_path, made))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_that_fires_unasked_fails_its_trial(tmp_path: Path) -> None:
    """The trials would be worth nothing if promtool did not notice one alert too many."""
    made = files()
    text = made["vllm-rules.yml"] + "\n  - name: more\n    rules:\n      - {alert: PDWatchUnasked, expr: vector(1)}\n"
    test = parsed(made["vllm-rules_test.yml"])
    short = next(trial for trial in test["tests"] if "one slow" in trial["name"])
    changed = {"vllm-rules.yml": text, "one_test.yml": json.dumps({**test, "tests": [short]})}
    done = ran([tool("promtool"), "test", "rules", "one_test.yml"], written(tmp_path, changed))
    assert done.returncode != 0
    assert "PDWatchUnasked" in done.stdout + done.stderr
