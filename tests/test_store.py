"""What survives a restart, a kill, and a damaged file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agent.errors import StateError
from agent.store import FILE_NAME, Store


def test_documents_come_back_after_the_process_has_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.save([("a", {"x": 1.5, "none": None}), ("b", [1, 2])])
    store.close()
    assert Store(tmp_path / "state").load() == {"a": {"x": 1.5, "none": None}, "b": [1, 2]}


def test_a_document_is_replaced_and_obsolete_ones_go(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save([("keep", 1), ("drop", 2)])
    store.save([("keep", 3)], obsolete=lambda key: key == "drop")
    assert store.load() == {"keep": 3}


def test_a_save_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save([("a", 1)])

    def broken(key: str) -> bool:
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(StateError, match="could not be saved"):
        store.save([("a", 2)], obsolete=broken)
    assert store.load() == {"a": 1}


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at" * 40, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_damaged_file_is_put_aside_and_the_history_begins_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    store = Store(tmp_path)
    assert store.load() == {}
    assert store.put_aside is not None
    assert store.put_aside.read_bytes() == content


def test_a_file_of_a_later_version_is_put_aside_too(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    assert Store(tmp_path).put_aside is not None


def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="state_dir"):
        Store(tmp_path / "file" / "state")
