"""Where bundles stand. In: a bundle's files. Out: a folder that appears whole, and never too many of them.

STATE_DIR/evidence/20261130T220005Z-PDWatchObjectiveBreached-1f0c9a3b/
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from agent.verdicts.alert import Alert

MOST_BUNDLES = 50
MOST_BYTES = 1 << 30
UNFINISHED_SECONDS = 3600.0
"""What a kill left half written is removed after this."""
ALERTS_FILE = "alerts.json"
FILES: Mapping[str, str] = {
    "report.md": "this page",
    "recording.jsonl.gz": "what targets showed in the minutes before, for `pdwatch replay`",
    "state.json": "the state when it fired",
    "state-before.json": "a state from some minutes before",
    "memory.json": "the servers' processes and their memory when it fired",
    "configuration.json": "the configuration in force, secrets masked",
    ALERTS_FILE: "labels and texts of what fired",
}
"""Every file that a bundle may hold, and what it is."""

_NAME = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9]{1,80}-[0-9a-f]{8}")


def bundle_name(alert: Alert, now: float) -> str:
    """Begins with the time, so that names sort by age."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{re.sub(r'[^A-Za-z0-9]', '', alert.name)[:80] or 'Alert'}-{alert.identity[:8]}"


class Shelf:
    """The folder of all bundles. `most_bytes`: of all together."""

    def __init__(self, directory: Path, most_bundles: int = MOST_BUNDLES, most_bytes: int = MOST_BYTES) -> None:
        self.directory = directory
        self._most_bundles = most_bundles
        self._most_bytes = most_bytes

    def names(self) -> list[str]:
        """All bundles, oldest first."""
        try:
            return sorted(entry.name for entry in os.scandir(self.directory) if _NAME.fullmatch(entry.name))
        except OSError:  # none yet, or a disk that does not answer: writing will say so
            return []

    def file(self, bundle: str, name: str) -> Path | None:
        """A file of a bundle. None for any other name: nothing else is ever served."""
        if name not in FILES or not _NAME.fullmatch(bundle):
            return None
        path = self.directory / bundle / name
        return path if path.is_file() and not path.is_symlink() and not path.parent.is_symlink() else None

    def put(self, name: str, files: Mapping[str, Iterable[bytes]]) -> None:
        """Writes a bundle beside the others and makes room for it. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        unfinished = self.directory / f".{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            for file, parts in files.items():
                with (unfinished / file).open("wb") as opened:
                    opened.writelines(parts)
            if (self.directory / name).exists():  # another replica wrote of the same incident in the same second
                shutil.rmtree(unfinished, ignore_errors=True)
            else:
                unfinished.rename(self.directory / name)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        self._make_room()

    def write_alerts(self, name: str, alerts: Sequence[Alert]) -> None:
        """Replaces the list of what a bundle is about. Raises OSError."""
        path = self.directory / name / ALERTS_FILE
        beside = path.with_suffix(".tmp")
        beside.write_bytes(alerts_json(alerts))
        beside.replace(path)

    def alerts(self) -> dict[str, str]:
        """Identity and begin of every alert (as `alert_key` has it) -> the bundle that is about it."""
        found: dict[str, str] = {}
        for name in self.names():
            with suppress(OSError, ValueError, TypeError, KeyError):
                for entry in json.loads((self.directory / name / ALERTS_FILE).read_bytes()):
                    found[str(entry["key"])] = name
        return found

    def _make_room(self) -> None:
        for left in self.directory.glob(".*.unfinished"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > UNFINISHED_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
        sizes = {name: _size(self.directory / name) for name in self.names()}
        total, count = sum(sizes.values()), len(sizes)
        for name in list(sizes)[:-1]:  # the newest stays, however large it is
            if count <= self._most_bundles and total <= self._most_bytes:
                return
            shutil.rmtree(self.directory / name, ignore_errors=True)
            total, count = total - sizes[name], count - 1


def alert_key(alert: Alert) -> str:
    """One incident of one alert."""
    return f"{alert.identity}@{alert.starts_at:.3f}"


def alerts_json(alerts: Sequence[Alert]) -> bytes:
    """The file that says what a bundle is about."""
    return json.dumps([{"key": alert_key(alert), **alert.to_json()} for alert in alerts], indent=1).encode()


def _size(directory: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in os.scandir(directory))
    except OSError:
        return 0
