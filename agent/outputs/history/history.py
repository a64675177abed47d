"""The history: notes go in, series come out, and no trouble with the disk ends it. In: states. Out: points.

Every method may be called from any thread, and none on the event loop, since a disk may take its time. When the file
cannot be used, what could be read of it goes on in memory and the trouble is raised once, to be counted; the file is
tried again later and gets what it missed.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from agent.errors import StateError
from agent.outputs.history.database import Database
from agent.outputs.history.lines import Lines
from agent.outputs.history.thinning import SLOT_SECONDS, Point, Row, join, stretches, width_of, with_gaps
from agent.outputs.history.values import MEMORY, is_averaged, values_of
from agent.state import State

FILE_NAME = "history.sqlite"
KEEP_SECONDS = 86400.0
MOST_FILE_BYTES = 64 << 20
MOST_MEMORY_BYTES = 16 << 20
TIDY_EVERY_NOTES = 40
"""Ten minutes of notes. Rows go only when the clock has stood right for so long: a wrong one must not erase a day."""
AGAIN_AFTER_NOTES = 40
STEP_BACK_SECONDS, STEP_FORWARD_SECONDS = 60.0, 600.0
"""Between two notes: more than this and somebody set the clock, or the machine slept."""

_Work = Callable[[Database, int], None]


class History:
    """`path`: the file, None for memory alone. `most_bytes`: of all rows; the oldest go first."""

    def __init__(self, path: Path | None, keep_seconds: float = KEEP_SECONDS, most_bytes: int | None = None) -> None:
        self._path = path
        self._keep_seconds = keep_seconds
        self._most_bytes = most_bytes
        self._turn = threading.Lock()
        self._trouble: StateError | None = None
        self._missed_since: int | None = None
        self._slot: int | None = None
        self._held: dict[str, Row] = {}
        self._lines = Lines()
        self._last_at: float | None = None
        self._notes = self._steady_notes = 0
        self._open_again_at_note = AGAIN_AFTER_NOTES
        self._database: Database | None = self._opened() or Database(None)

    def note(self, state: State) -> None:
        """Takes in one state, at most every 15 s. Raises StateError for trouble with the file, when all is noted."""
        with self._turn:
            if self._database is None or not math.isfinite(state.at):
                return
            self._follow_clock(state.at)
            remembered = (name for name in self._held if name.startswith(f"{MEMORY}/"))
            rows = self._joined(state.at, values_of(state, remembered))
            if self._database.path is None and self._path is not None and self._notes >= self._open_again_at_note:
                self._return_to_file()
            self._do(lambda database, slot: database.write(slot, rows))
            if self._notes % TIDY_EVERY_NOTES == 0:
                self._do(self._tidy)
            trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def series(self, name: str, begin: float, end: float, most_points: int = 300) -> list[Point]:
        """One series from `begin` to `end` (unix seconds), in order of time; empty for a name that is not known."""
        with self._turn:
            if self._database is None:
                return []
            return self._read(name, begin, end, most_points)

    def names(self) -> list[str]:
        """Every series that has a row, as "<indicator>/<scope>"."""
        with self._turn:
            return [] if self._database is None else self._database.names()

    def close(self) -> None:
        """Ends the use of the file; what comes later is not kept. A second call does nothing."""
        with self._turn:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _follow_clock(self, at: float) -> None:
        self._notes += 1
        step = 0.0 if self._last_at is None else at - self._last_at
        set_anew = step < -STEP_BACK_SECONDS or step > STEP_FORWARD_SECONDS
        self._steady_notes = 0 if set_anew else self._steady_notes + 1
        self._last_at = at

    def _joined(self, at: float, rows: dict[str, Row]) -> dict[str, Row]:
        """The rows of the slot so far. A slot that comes again after the clock was set back begins anew."""
        slot = math.floor(at / SLOT_SECONDS)
        if slot != self._slot:
            if self._slot is not None and slot < self._slot:
                self._lines.forget()
            self._slot, held = slot, {}
        else:
            held = self._held
        joined = {
            name: join((held[name], row), is_averaged(name)) if name in held else row for name, row in rows.items()
        }
        self._held = held | joined
        return joined

    def _do(self, work: _Work) -> None:
        """Does it with the file; where that fails, in memory."""
        assert self._database is not None
        assert self._slot is not None
        try:
            work(self._database, self._slot)
        except sqlite3.Error as error:
            self._leave_file(error)
            work(self._database, self._slot)

    def _tidy(self, database: Database, slot: int) -> None:
        extent = database.extent()
        if extent is None:
            return
        first, last = extent
        if self._steady_notes >= TIDY_EVERY_NOTES:
            first, last = max(first, slot - math.ceil(self._keep_seconds / SLOT_SECONDS)), min(last, slot)
            database.keep_only(first, last)
        limit = self._most_bytes or (MOST_MEMORY_BYTES if database.path is None else MOST_FILE_BYTES)
        while database.bytes() > limit and first < last:
            first += max(1, (last - first) // 10)
            database.keep_only(first, last)

    def _read(self, name: str, begin: float, end: float, most_points: int) -> list[Point]:
        assert self._database is not None
        if not (math.isfinite(begin) and math.isfinite(end)):
            return []
        try:
            extent = self._database.extent()
            if extent is None:
                return []
            # Of the asked stretch what there is, and of rows written by a wrong clock nothing.
            end = min(end, (extent[1] + 1) * SLOT_SECONDS, math.inf if self._last_at is None else self._last_at)
            begin = max(begin, extent[0] * SLOT_SECONDS, end - self._keep_seconds)
            if begin > end:
                return []
            return self._line(self._database, name, begin, end, width_of(begin, end, most_points))
        except sqlite3.Error as error:
            self._leave_file(error)
            return self._read(name, begin, end, most_points)

    def _line(self, database: Database, name: str, begin: float, end: float, width_seconds: float) -> list[Point]:
        """The first and the last stretch are asked for in part, and read each time."""

        def between(since: float, until: float) -> dict[int, Point]:
            slots = math.floor(since / SLOT_SECONDS), math.floor(until / SLOT_SECONDS)
            rows = (row for row in database.read(name, *slots) if since <= row.at <= until)
            return stretches(rows, width_seconds, is_averaged(name))

        def whole(first: int, after: int) -> dict[int, Point]:
            return between(first * width_seconds, math.nextafter(after * width_seconds, 0.0))

        first, last = math.floor(begin / width_seconds), math.floor(end / width_seconds)
        if first == last:
            return with_gaps(between(begin, end), width_seconds)
        points = between(begin, math.nextafter((first + 1) * width_seconds, 0.0))
        points |= self._lines.points(name, width_seconds, first + 1, last, whole)
        points |= between(last * width_seconds, end)
        return with_gaps(points, width_seconds)

    def _opened(self) -> Database | None:
        """The file, begun anew where it was damaged; None where it cannot be used, or is not wanted."""
        if self._path is None:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return Database(self._path)
            except sqlite3.OperationalError:
                raise  # locked, full or unwritable: nothing is wrong with what is in it
            except sqlite3.DatabaseError as error:
                aside = _put_aside(self._path)
                self._trouble = StateError(
                    f"the history in {self._path} was damaged ({error}), is put aside as {aside.name} and begins anew"
                )
                return Database(self._path)
        except (OSError, sqlite3.Error) as error:
            self._trouble = StateError(
                f"the history in {self._path} cannot be used: {error}; it is kept in memory, and the file tried again "
                "every ten minutes"
            )
            return None

    def _leave_file(self, error: sqlite3.Error) -> None:
        """Goes on in memory with what can still be read."""
        broken, memory = self._database, Database(None)
        self._lines.forget()
        assert broken is not None
        if broken.path is None:
            raise StateError(f"the history in memory failed: {error}") from error
        self._trouble = StateError(f"the history in {broken.path} failed: {error}; it is kept in memory meanwhile")
        self._trouble.__cause__ = error
        self._missed_since = self._slot
        try:
            broken.copy_since(0, memory)
        except sqlite3.Error:
            memory.close()
            memory = Database(None)  # a damaged file: what was read of it may be anything
        broken.close()
        self._database = memory
        self._open_again_at_note = self._notes + AGAIN_AFTER_NOTES

    def _return_to_file(self) -> None:
        """Opens the file once more and gives it what it missed."""
        self._open_again_at_note = self._notes + AGAIN_AFTER_NOTES
        memory, file = self._database, self._opened()
        assert memory is not None
        if file is None:
            return
        try:
            memory.copy_since(self._missed_since or 0, file)
        except sqlite3.Error as error:
            self._trouble = StateError(f"the history in {self._path} failed again: {error}; it stays in memory")
            file.close()
            return
        memory.close()
        self._lines.forget()
        self._database, self._missed_since = file, None


def _put_aside(path: Path) -> Path:
    """Moves a damaged file out of the way, over the one that was put aside before."""
    aside = path.with_name(path.name + ".damaged")
    path.replace(aside)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return aside
