"""What survives a restart: small JSON documents by key, in one SQLite file in the state directory.

In: the documents that changed. Out: all of them, when pdwatch starts again. Every save is one transaction, so a kill at
any moment leaves the last complete save. A file that is damaged is put aside under another name, never deleted, and
the history begins anew.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.errors import StateError

FILE_NAME = "pdwatch.sqlite"
SCHEMA_VERSION = 1


class Store:
    """The file in `directory`. Raises StateError when the directory cannot be used at all."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._saving = threading.Lock()
        self.put_aside: Path | None = None
        """Where a damaged file was moved to, if one was found."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._connection = self._open()
        except (OSError, sqlite3.OperationalError) as error:
            raise StateError(f"state_dir {directory} cannot be used: {error}; make it writable for pdwatch") from error

    def load(self) -> dict[str, Any]:
        """Key -> document, everything that was saved."""
        try:
            rows = self._connection.execute("SELECT key, body FROM documents ORDER BY key")
            return {key: json.loads(body) for key, body in rows}
        except (sqlite3.Error, ValueError):
            self._put_aside()
            return {}

    def save(self, documents: Iterable[tuple[str, Any]], obsolete: Callable[[str], bool] | None = None) -> None:
        """Writes documents and removes the keys that `obsolete` names, all or nothing; from any thread."""
        rows = [(key, json.dumps(document, separators=(",", ":"))) for key, document in documents]
        try:
            with self._saving, self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO documents (key, body) VALUES (?, ?)", rows)
                if obsolete is not None:
                    keys = [key for (key,) in self._connection.execute("SELECT key FROM documents")]
                    gone = [(key,) for key in keys if obsolete(key)]
                    self._connection.executemany("DELETE FROM documents WHERE key = ?", gone)
        except sqlite3.Error as error:
            raise StateError(f"history could not be saved to {self.path}: {error}") from error

    def close(self) -> None:
        """Ends the use of the file; a second call does nothing."""
        self._connection.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, full or unwritable: nothing is wrong with what is in it
            return self._begin_anew()

    def _put_aside(self) -> None:
        self._connection.close()
        self._connection = self._begin_anew()

    def _begin_anew(self) -> sqlite3.Connection:
        """Moves the damaged file out of the way, with what SQLite keeps beside it."""
        self.put_aside = _free_name(self.path)
        self.path.rename(self.put_aside)
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, check_same_thread=False, timeout=5.0)
        try:
            with connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version not in (0, SCHEMA_VERSION):
                    raise sqlite3.DatabaseError(f"its version is {version}, not {SCHEMA_VERSION}")
                connection.execute("CREATE TABLE IF NOT EXISTS documents (key TEXT PRIMARY KEY, body TEXT NOT NULL)")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            with closing(connection.execute("SELECT count(*) FROM documents")) as rows:
                rows.fetchone()
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _free_name(path: Path) -> Path:
    for number in range(1, 1000):
        candidate = path.with_name(f"{path.name}.damaged-{number}")
        if not candidate.exists():
            return candidate
    raise StateError(f"too many damaged files beside {path}; look at them and remove them")
