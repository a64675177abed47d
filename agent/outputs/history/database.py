"""The rows on disk, or in memory. In: rows of one minute. Out: the rows of one series, quickly, and a bounded file.

Rows lie in order of time and then of series: a note writes a few neighbouring pages whatever the number of series, and
old rows go in one stroke. A series is read by one look-up per minute. Raises sqlite3.Error; the history decides.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from agent.outputs.history.thinning import Row

SCHEMA_VERSION = 1
MOST_NAMES = 4000
"""Names that are known at once; a new one has to wait until old ones are gone."""
LOCKED_SECONDS = 2.0
WAL_BYTES = 4 << 20

_TABLES = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS points (
    slot INTEGER NOT NULL, series INTEGER NOT NULL,
    at REAL NOT NULL, value REAL, low REAL, high REAL, count REAL, looks INTEGER NOT NULL,
    PRIMARY KEY (slot, series)
) WITHOUT ROWID;
"""
_READ = """
WITH RECURSIVE slots (slot) AS (SELECT :first UNION ALL SELECT slot + 1 FROM slots WHERE slot < :last)
SELECT at, value, low, high, count, looks
FROM slots CROSS JOIN points ON points.slot = slots.slot AND points.series = :series
"""


class Database:
    """One connection. `path` None: in memory. Not for several threads at once: the history takes turns."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection = sqlite3.connect(
            ":memory:" if path is None else path, check_same_thread=False, timeout=LOCKED_SECONDS
        )
        try:
            self._prepare()
            self._ids: dict[str, int] = dict(self._connection.execute("SELECT name, id FROM series"))
        except sqlite3.Error:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        (found,) = execute("PRAGMA quick_check(1)").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        if found != "ok" or version not in (0, SCHEMA_VERSION):
            raise sqlite3.DatabaseError(found if found != "ok" else f"its version is {version}, not {SCHEMA_VERSION}")
        if self.path is not None:
            execute("PRAGMA journal_mode=WAL")
            execute("PRAGMA synchronous=NORMAL")
            execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
        self._connection.executescript(_TABLES)
        with self._connection:  # also tells now, and not at the first note, that the file cannot be written
            execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def write(self, slot: int, rows: Mapping[str, Row]) -> None:
        """Replaces these series' rows of one slot, all or nothing."""
        new: dict[str, int] = {}
        with self._connection:
            for name in rows:
                if name not in self._ids and len(self._ids) + len(new) < MOST_NAMES:
                    cursor = self._connection.execute("INSERT INTO series (name) VALUES (?)", (name,))
                    new[name] = int(cursor.lastrowid or 0)
            ids = {**self._ids, **new}
            self._connection.executemany(
                "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(slot, ids[name], *row) for name, row in rows.items() if name in ids],
            )
        self._ids = ids

    def read(self, name: str, first_slot: int, last_slot: int) -> list[Row]:
        """The rows of one series from slot to slot, in order of time."""
        series = self._ids.get(name)
        if series is None:
            return []
        found = self._connection.execute(_READ, {"first": first_slot, "last": last_slot, "series": series})
        return list(map(Row._make, found))

    def names(self) -> list[str]:
        """Every series, in order of name."""
        return sorted(self._ids)

    def extent(self) -> tuple[int, int] | None:
        """The first and the last slot that hold anything."""
        first, last = self._connection.execute(
            "SELECT (SELECT min(slot) FROM points), (SELECT max(slot) FROM points)"
        ).fetchone()
        return None if first is None else (first, last)

    def keep_only(self, first_slot: int, last_slot: int) -> None:
        """Removes the rows of all other slots, and the series that are left without any."""
        with self._connection:
            self._connection.execute("DELETE FROM points WHERE slot < ?", (first_slot,))
            self._connection.execute("DELETE FROM points WHERE slot > ?", (last_slot,))
            self._connection.execute("DELETE FROM series WHERE id NOT IN (SELECT series FROM points)")
        self._ids = dict(self._connection.execute("SELECT name, id FROM series"))

    def bytes(self) -> int:
        """What the rows take; removed rows leave room for new ones and not a smaller file."""
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def copy_since(self, first_slot: int, other: Database) -> None:
        """Writes the rows from this slot on into another database."""
        rows = self._connection.execute(
            "SELECT slot, name, at, value, low, high, count, looks FROM points JOIN series ON id = series "
            "WHERE slot >= ? ORDER BY slot",
            (first_slot,),
        )
        for slot, found in groupby(rows, key=itemgetter(0)):
            other.write(slot, {name: Row._make(row) for _, name, *row in found})

    def close(self) -> None:
        """Ends the use of the file; a second call does nothing."""
        self._connection.close()
