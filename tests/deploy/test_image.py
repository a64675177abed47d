"""The Dockerfile, without Docker: what a linter, and a reader of its lines, can hold."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from agent import __version__
from agent.cli import COMMANDS
from agent.export.kubernetes.container import IMAGE, PORT, USER

Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def instructions(repository: Path) -> list[Instruction]:
    text = (repository / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(word, rest) for word, rest in lines]


def last_stage(instructions: list[Instruction]) -> list[Instruction]:
    begin = max(index for index, (word, _) in enumerate(instructions) if word == "FROM")
    return instructions[begin:]


def the(instructions: list[Instruction], word: str) -> str:
    (rest,) = [rest for found, rest in last_stage(instructions) if found == word]
    return rest


def test_the_linter_finds_nothing(repository: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, repository / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs_as_a_number_that_is_not_root(instructions: list[Instruction]) -> None:
    assert the(instructions, "USER") == f"{USER}:{USER}"


def test_it_starts_without_a_shell_a_command_that_there_is(instructions: list[Instruction]) -> None:
    assert json.loads(the(instructions, "ENTRYPOINT")) == ["pdwatch"]
    assert json.loads(the(instructions, "CMD"))[0] in COMMANDS
    health = the(instructions, "HEALTHCHECK")
    check = json.loads(health[health.index("[") :])
    assert check[:2] == ["python", "-c"]
    ast.parse(check[2])
    assert f"127.0.0.1:{PORT}/-/healthy" in check[2]


def test_both_stages_stand_on_one_pinned_base(instructions: list[Instruction]) -> None:
    base = next(rest for word, rest in instructions if word == "ARG" and rest.startswith("PYTHON_IMAGE="))
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-\w+", base)
    assert {rest.split()[0] for word, rest in instructions if word == "FROM"} == {"${PYTHON_IMAGE}"}


def test_it_says_what_it_is_with_the_packages_version(instructions: list[Instruction]) -> None:
    labels = dict(part.split("=", 1) for part in shlex.split(the(instructions, "LABEL")))
    names = {name.removeprefix("org.opencontainers.image.") for name in labels}
    assert names == {"title", "description", "version", "revision", "licenses"}
    assert ("ARG", f"VERSION={__version__}") in last_stage(instructions)
    assert f"pdwatch:{__version__}" == IMAGE


def test_what_is_copied_reaches_the_builder_and_is_all_that_the_package_needs(
    instructions: list[Instruction], repository: Path
) -> None:
    copied = [
        name for word, rest in instructions if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]
    ]
    assert set(copied) == {"pyproject.toml", "README.md", "LICENSE", "agent"}
    ignore = [
        line for line in (repository / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"
    ]
    assert [name for name in copied if _is_ignored(name, ignore)] == []
    assert [name for name in (".git", "tests", ".venv", "docs", "pdwatch.yaml") if not _is_ignored(name, ignore)] == []


def _is_ignored(name: str, rules: list[str]) -> bool:
    """The last rule that fits decides, as Docker has it."""
    ignored = False
    for rule in rules:
        if fnmatch(name, rule.removeprefix("!")):
            ignored = not rule.startswith("!")
    return ignored
