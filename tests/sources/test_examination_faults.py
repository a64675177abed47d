"""Evidence commands that do what commands must not: none of them may keep the closer look waiting."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.sources import examination
from agent.sources.examination import run_bounded


def test_a_flood_that_is_cut_off_is_not_waited_for(tmp_path, monkeypatch):
    # Output that nobody reads any more used to keep the end of its process from being noticed, for good.
    monkeypatch.setattr(examination, "MOST_OUTPUT_BYTES", 1)
    how = asyncio.run(
        asyncio.wait_for(run_bounded(("head", "-c", "50000000", "/dev/zero"), tmp_path / "out", 60.0), 30)
    )
    assert how.startswith("was ended at ")
    assert (tmp_path / "out").stat().st_size == 1


def test_a_process_that_left_the_group_and_holds_the_output_is_not_waited_for(tmp_path):
    began = time.monotonic()
    how = asyncio.run(run_bounded(("sh", "-c", "setsid sleep 5 & sleep 5"), tmp_path / "out", 0.3))
    assert how == "was ended after 0.3 s"
    assert time.monotonic() - began < 4.0


def test_a_full_disk_ends_the_command_and_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(run_bounded(("yes",), Path("/dev/full"), 60.0))
