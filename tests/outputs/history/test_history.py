"""The history of a day: what is kept, what survives, what is thrown away, and what a bad disk does to it."""

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import StateError
from agent.outputs.history import FILE_NAME, History, Point
from agent.outputs.history.database import Database
from agent.outputs.history.thinning import Row
from agent.outputs.history.values import MOST_PROCESSES, values_of
from tests.outputs.history.states import BEGIN, decode, process, state, verdict, with_memory

DAY = 86400.0


def note_minutes(history: History, minutes: int, begin: float = BEGIN, ttft: float = 2.0) -> float:
    """One note a minute; the time of the last one."""
    for n in range(minutes):
        history.note(state(begin + 60 * n, ttft))
    return begin + 60 * (minutes - 1)


def values(history: History, name: str, end: float = BEGIN + DAY) -> list[float | None]:
    return [point.value for point in history.series(name, BEGIN - DAY, end, 1500)]


def rows_in(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM points").fetchone()[0])
    finally:
        connection.close()


@pytest.fixture(params=["on disk", "in memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state" / FILE_NAME if request.param == "on disk" else None


def test_a_note_can_be_read_again(path: Path | None) -> None:
    history = History(path)
    history.note(state(BEGIN, 2.5, 8))
    assert history.series("ttft/system", BEGIN - 60, BEGIN) == [Point(BEGIN, 2.5, 2.5, 2.5, 8)]
    history.close()


def test_every_series_is_named_by_indicator_and_scope() -> None:
    history = History(None)
    history.note(
        replace(
            with_memory(state(BEGIN), process("decode-0", "VLLM::EngineCore_DP0", 2**30)),
            verdicts=(verdict(0.02, 0.01, 0.03),),
        )
    )
    assert history.names() == [
        "acceptance_length/decode",
        "acceptance_rate/decode",
        "errors/decode",
        "generation_tokens_per_s/decode",
        "kv_usage_max/decode",
        "memory/decode-0/VLLM::EngineCore_DP0",
        "objective/tpot/decode",
        "requests_per_s/decode",
        "requests_running/decode",
        "requests_waiting/decode",
        "tpot/decode",
        "tpot_token/decode",
        "ttft/system",
    ]
    assert history.series("objective/tpot/decode", 0, BEGIN) == [Point(BEGIN, 0.02, 0.01, 0.03, 7)]


def test_failed_requests_are_a_share_with_its_bounds() -> None:
    # 10 failed by their reason and 4 by their answer: the same ones (10 of 100) or others (14 of 104).
    row = values_of(state(BEGIN))["errors/decode"]
    assert row.low == 0.1
    assert row.high == pytest.approx(14 / 104)


def test_what_does_not_apply_or_is_not_on_the_page_makes_no_series() -> None:
    names = values_of(state(BEGIN))
    assert "ttft/decode" not in names
    assert "kv_transfer/decode" not in names


def test_ten_thousand_engines_make_no_more_series_than_one() -> None:
    one = state(BEGIN)
    many = replace(one, pools={"decode": replace(decode(0.02, 4), targets={f"t{n}": None for n in range(10_000)})})  # type: ignore[misc]
    assert values_of(many).keys() == values_of(one).keys()


def test_processes_of_one_title_count_together_and_are_unknown_with_one_of_them() -> None:
    known = with_memory(state(BEGIN), process("d", "python", 100), process("d", "python", 50, pid=2))
    assert values_of(known)["memory/d/python"].value == 150.0
    partly = with_memory(state(BEGIN), process("d", "python", 100), process("d", "python", None, pid=2))
    assert values_of(partly)["memory/d/python"].value is None


def test_of_too_many_processes_the_remembered_and_the_largest_are_kept() -> None:
    crowd = [process("d", f"p{n}", n, pid=n) for n in range(MOST_PROCESSES + 50)]
    names = values_of(with_memory(state(BEGIN), *crowd), ["memory/d/p3"])
    kept = {name for name in names if name.startswith("memory/")}
    assert len(kept) == MOST_PROCESSES
    assert "memory/d/p3" in kept
    assert "memory/d/p49" not in kept
    assert f"memory/d/p{MOST_PROCESSES + 49}" in kept


def test_notes_within_a_minute_are_joined_by_their_counts() -> None:
    history = History(None)
    for n, (ttft, count) in enumerate([(1.0, 10), (2.0, 10), (4.0, 20)]):
        history.note(state(BEGIN + 15 * n, ttft, count))
    (point,) = history.series("ttft/system", BEGIN, BEGIN + 60)
    assert point == Point(BEGIN + 30, 2.75, 1.0, 4.0, 13)


def test_history_survives_a_restart(tmp_path: Path) -> None:
    first = History(tmp_path / FILE_NAME)
    end = note_minutes(first, 5)
    first.close()
    second = History(tmp_path / FILE_NAME)
    assert values(second, "ttft/system", end) == [2.0] * 5
    second.note(state(end + 600, 3.0))
    assert values(second, "ttft/system", end + 600) == [2.0] * 5 + [None, 3.0]
    second.close()


def test_a_kill_loses_nothing_that_was_noted(tmp_path: Path) -> None:
    killed = History(tmp_path / FILE_NAME)
    end = note_minutes(killed, 3)
    other = History(tmp_path / FILE_NAME)  # the first one was never closed
    assert values(other, "ttft/system", end) == [2.0] * 3
    other.close()
    killed.close()


def test_rows_older_than_a_day_go_and_with_them_series_without_rows(path: Path | None) -> None:
    history = History(path, keep_seconds=3600.0)
    history.note(with_memory(state(BEGIN), process("d", "gone", 1)))
    end = note_minutes(history, 200, BEGIN + 60)
    assert "memory/d/gone" not in history.names()
    assert len(history.series("ttft/system", BEGIN, end, 1500)) <= 61 + 40
    history.close()


def test_the_rows_stay_within_their_bytes(path: Path | None) -> None:
    history = History(path, most_bytes=200_000)
    crowd = [process("d", f"process {n}", n, pid=n) for n in range(150)]
    for n in range(120):
        history.note(with_memory(state(BEGIN + 60 * n), *crowd))
    assert history._database is not None
    assert history._database.bytes() <= 200_000
    assert values(history, "ttft/system", BEGIN + 60 * 119)[-1] == 2.0
    history.close()


def test_new_names_cannot_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.outputs.history.database.MOST_NAMES", 40)
    history = History(None)
    for n in range(100):
        history.note(with_memory(state(BEGIN + 15 * n), process("d", f"job-{n}", 1)))
    assert len(history.names()) == 40


def test_a_clock_that_was_ahead_for_a_while_erases_nothing() -> None:
    history = History(None)
    end = note_minutes(history, 60)
    note_minutes(history, 20, BEGIN + 3 * DAY)
    note_minutes(history, 60, end + 60)
    assert values(history, "ttft/system", end + 3600) == [2.0] * 120


def test_rows_of_a_wrong_clock_are_not_shown_and_go_once_it_has_stood_right() -> None:
    history = History(None)
    note_minutes(history, 5, BEGIN + 30 * DAY, ttft=9.0)
    end = note_minutes(history, 5)
    assert history.series("ttft/system", BEGIN, BEGIN + 90 * DAY)[-1].value == 2.0
    note_minutes(history, 90, end + 60)
    assert history._database is not None
    extent = history._database.extent()
    assert extent is not None
    assert extent[1] * 60 == end + 90 * 60


def test_minutes_that_come_again_after_the_clock_was_set_back_begin_anew() -> None:
    history = History(None)
    note_minutes(history, 30, ttft=9.0)
    end = note_minutes(history, 30, ttft=2.0)
    assert values(history, "ttft/system", end) == [2.0] * 30


@pytest.mark.parametrize("content", [b"no database " * 500, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_put_aside_and_said_once(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    history = History(tmp_path / FILE_NAME)
    with pytest.raises(StateError, match="was damaged"):
        history.note(state(BEGIN))
    history.note(state(BEGIN + 60))
    assert values(history, "ttft/system", BEGIN + 60) == [2.0, 2.0]
    assert (tmp_path / f"{FILE_NAME}.damaged").read_bytes() == content
    history.close()


def test_a_file_of_a_later_version_is_put_aside_too(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    history = History(tmp_path / FILE_NAME)
    with pytest.raises(StateError, match="version is 99"):
        history.note(state(BEGIN))
    history.close()


def test_a_folder_that_cannot_be_used_is_said_and_the_history_goes_on_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file" / FILE_NAME)
    with pytest.raises(StateError, match="cannot be used"):
        history.note(state(BEGIN))
    assert values(history, "ttft/system", BEGIN) == [2.0]
    history.close()


def test_a_locked_file_gets_later_what_it_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.outputs.history.database.LOCKED_SECONDS", 0.0)
    path = tmp_path / FILE_NAME
    history = History(path)
    note_minutes(history, 2)
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateError, match="locked"):
        history.note(state(BEGIN + 120))
    note_minutes(history, 20, BEGIN + 180)
    assert values(history, "ttft/system", BEGIN + 180 + 19 * 60) == [2.0] * 23
    other.rollback()
    other.close()
    end = note_minutes(history, 37, BEGIN + 23 * 60)
    assert values(history, "ttft/system", end) == [2.0] * 60
    history.close()
    again = History(path)
    assert values(again, "ttft/system", end) == [2.0] * 60
    again.close()


def test_a_full_disk_is_said_and_the_history_goes_on_in_memory(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    history = History(path)
    note_minutes(history, 2)
    assert history._database is not None
    history._database._connection.execute("PRAGMA max_page_count = 1")  # SQLite never goes below what there is
    crowd = [process("d", f"{n} " + "x" * 200, n, pid=n) for n in range(200)]
    with pytest.raises(StateError, match="full"):
        history.note(with_memory(state(BEGIN + 120), *crowd))
    assert values(history, "ttft/system", BEGIN + 120) == [2.0] * 3
    history.close()


def test_damage_while_it_runs_is_said_and_reading_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    history = History(tmp_path / FILE_NAME)
    note_minutes(history, 2)
    monkeypatch.setattr(history._database, "read", broken)
    assert values(history, "ttft/system", BEGIN + 60) == [2.0, 2.0]
    with pytest.raises(StateError, match="malformed"):
        history.note(state(BEGIN + 120))
    history.close()


def test_after_the_close_nothing_is_kept_and_nothing_breaks(path: Path | None) -> None:
    history = History(path)
    history.note(state(BEGIN))
    history.close()
    history.close()
    history.note(state(BEGIN + 60))
    assert history.names() == []
    assert history.series("ttft/system", 0, BEGIN + 60) == []


def test_a_stretch_that_cannot_be_is_empty() -> None:
    history = History(None)
    history.note(state(BEGIN))
    assert history.series("ttft/system", BEGIN, BEGIN - 60) == []
    assert history.series("ttft/system", float("nan"), BEGIN) == []
    assert history.series("ttft/nowhere", 0, BEGIN) == []
    assert len(history.series("ttft/system", -1e300, 1e300, 0)) == 1


def test_threads_take_turns(tmp_path: Path) -> None:
    history = History(tmp_path / FILE_NAME)
    failed: list[Exception] = []

    def read() -> None:
        try:
            for _ in range(50):
                history.series("ttft/system", BEGIN, BEGIN + DAY)
                history.names()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test says it
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    end = note_minutes(history, 50)
    for reader in readers:
        reader.join()
    assert failed == []
    assert values(history, "ttft/system", end) == [2.0] * 50
    history.close()


def test_the_file_holds_a_row_a_minute_and_series(tmp_path: Path) -> None:
    history = History(tmp_path / FILE_NAME)
    for n in range(40):
        history.note(state(BEGIN + 15 * n))
    names = len(history.names())
    history.close()
    assert rows_in(tmp_path / FILE_NAME) == 10 * names


def test_a_database_in_memory_has_no_file() -> None:
    assert Database(None).path is None


def test_a_line_that_is_asked_for_again_and_again_is_the_one_that_is_read_anew(path: Path | None) -> None:
    history = History(path)
    for minute in range(300):
        if minute % 50 not in (7, 8, 9, 10):  # gaps in it
            history.note(state(BEGIN + 60 * minute + minute % 3, 1.0 + minute % 7, minute % 5))
        end = BEGIN + 60 * minute + 30.0
        again = [history.series("ttft/system", end - 7200.0, end, points) for points in (9, 40)]
        history._lines.forget()
        assert again == [history.series("ttft/system", end - 7200.0, end, points) for points in (9, 40)]
    history.close()


def test_a_line_is_read_anew_when_the_clock_was_set_back(path: Path | None) -> None:
    history = History(path)
    last = note_minutes(history, 120, ttft=2.0)
    assert {point.value for point in history.series("ttft/system", BEGIN, last, 20)} == {2.0}
    last = note_minutes(history, 100, begin=BEGIN + 600, ttft=3.0)
    found = history.series("ttft/system", BEGIN, last, 20)
    history._lines.forget()
    assert found == history.series("ttft/system", BEGIN, last, 20)
    assert found[-1].value == 3.0
    history.close()


def test_only_what_is_new_is_read_of_a_line_that_was_asked_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(None)
    last = note_minutes(history, 24 * 60)
    history.series("ttft/system", last - DAY, last)
    asked: list[int] = []
    read = Database.read

    def counted(self: Database, name: str, first: int, last: int) -> list[Row]:
        asked.append(last - first + 1)
        return read(self, name, first, last)

    monkeypatch.setattr(Database, "read", counted)
    history.note(state(last + 60))
    history.series("ttft/system", last + 60 - DAY, last + 60)
    assert sum(asked) <= 30
