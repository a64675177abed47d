"""Starts the committed trials with the first test of this folder: they take a while, and others can run meanwhile."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.export.rules.made import COMMITTED, TEST_FILES

Running = dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="session")
def trials() -> Iterator[Running]:
    """Test file -> its run by promtool; empty where promtool is not installed."""
    promtool = shutil.which("promtool")
    started: Running = {}
    if promtool is not None:
        for name in TEST_FILES:
            started[name] = subprocess.Popen(
                [promtool, "test", "rules", name],
                cwd=COMMITTED,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
    yield started
    for process in started.values():
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(autouse=True)
def _trials_run_meanwhile(trials: Running) -> None:
    """Every test of the folder asks for them, so that they begin with the first."""
