"""What every test may rely on: the shared folder, a clean environment, steady examples, no silent skips.

In: the environment (`PDWATCH_SHARED`, `CI`, `HYPOTHESIS_PROFILE`). Out: fixtures and two hooks. The hooks are
there because a test that was skipped where it should have run looks like one that passed.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

# Recordings of real fleets and published schemas: too large, or not ours, to be kept in the repository.
SHARED = Path(os.environ.get("PDWATCH_SHARED") or REPOSITORY.parent / "shared")

ON_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# The same examples in every run; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the work tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of recordings and schemas; a test that asks for it is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"no recordings and schemas at {SHARED}: set PDWATCH_SHARED to their folder")
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """`PDWATCH_...` variables of whoever runs the tests must not reach the configuration under test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PDWATCH_")]:
            patch.delenv(name)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On CI, a skipped test is a failed test; an expected failure stays what it is."""
    report = yield
    _fail_if_skipped_on_ci(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """On CI, a file that skips itself while it is collected is an error."""
    report = yield
    _fail_if_skipped_on_ci(report)
    return report


def _fail_if_skipped_on_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    if ON_CI and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: skipped, and CI skips nothing: {reason}"
