"""The committed files, and the command that writes them."""

import re
from pathlib import Path

import pytest

from agent.cli import main
from agent.export.rules.files import alert_files
from tests.export.rules.made import COMMITTED, CONFIGS, files, story

DUST = re.compile(r"\d\.\d{9,}")


def test_the_committed_files_are_those_of_the_story() -> None:
    stale = [name for name, text in files().items() if (COMMITTED / name).read_text(encoding="utf-8") != text]
    assert stale == []
    assert {path.name for path in COMMITTED.iterdir()} == {*files(), "pdwatch.yaml"}


def test_the_same_configuration_gives_the_same_files() -> None:
    assert dict(alert_files(story())) == files()


@pytest.mark.parametrize("name", CONFIGS)
def test_no_rule_holds_float_dust(name: str) -> None:
    made = files(name)
    assert [file for file in made if "_test" not in file and DUST.search(made[file])] == []


def test_the_command_writes_them_into_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a" / "b"
    assert main(["export", "alerts", "-c", str(COMMITTED / "pdwatch.yaml"), "-o", str(folder)]) == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == files()
    assert capsys.readouterr().out.splitlines() == [str(folder / name) for name in files()]


def test_alerts_without_a_deployments_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--prefill", "http://p:8000", "--decode", "http://d:8000", "-o", str(tmp_path)]
    assert main(["export", "alerts", *arguments]) == 2
    assert "'deployment' is not set" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_sidecar_exports_no_pool_alerts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pdwatch.yaml"
    text = (COMMITTED / "pdwatch.yaml").read_text(encoding="utf-8")
    file.write_text(text + "mode: sidecar\n", encoding="utf-8")
    assert main(["export", "alerts", "-c", str(file), "-o", str(tmp_path)]) == 2
    assert "mode sidecar" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    arguments = ["-c", str(COMMITTED / "pdwatch.yaml"), "-o", str(tmp_path / "taken")]
    assert main(["export", "alerts", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
