"""The rules as the real promtool sees them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.export.rules.made import (
    COMMITTED,
    CONFIGS,
    RULE_FILES,
    TEST_FILES,
    alerts,
    files,
    parsed,
    ran,
    tool,
    written,
)

Running = dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="module")
def trials() -> Iterator[Running]:
    """All committed test files, begun at once: each takes some seconds of one core."""
    promtool = tool("promtool")
    started = {
        name: subprocess.Popen(
            [promtool, "test", "rules", name],
            cwd=COMMITTED,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in TEST_FILES
    }
    yield started
    for process in started.values():
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", TEST_FILES)
def test_every_committed_trial_fires_what_it_says_and_nothing_else(name: str, trials: Running) -> None:
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
