"""What receivers were told and not yet told the end of. In: accepted posts. Out: open incidents by receiver.

One small JSON file in the state directory, written whole under another name and renamed: before a begin is posted for
the first time, and after every accepted post. So a kill at any moment loses no end, and repeats a begin only when it
came between a post and its answer. The file belongs to whoever holds the lease: a replica
that takes over reads it and goes on where the other stopped.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from agent.errors import StateError
from agent.verdicts.alert import Alert

FILE_NAME = "delivery.json"
FORMAT = 1

log = logging.getLogger("pdwatch")


@dataclass(frozen=True, slots=True)
class Told:
    """An open incident. `certain`: the receiver accepted its begin; else it was posted and no answer is known."""

    alert: Alert
    certain: bool


class Ledger:
    """`directory` None: nothing survives this process."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE_NAME
        self._open: dict[str, dict[str, Told]] = {}

    def open(self, receiver: str) -> dict[str, Told]:
        """Identity -> the alert as the receiver was told of it."""
        return self._open.setdefault(receiver, {})

    def load(self) -> None:
        """Reads the file; one that is missing or damaged is an empty one, and the latter is logged."""
        if self._path is None:
            return
        try:
            saved = json.loads(self._path.read_bytes())
            if saved["format"] != FORMAT:
                raise StateError(f"format {saved['format']!r}, this version reads {FORMAT}")
            self._open = {
                str(receiver): {told.alert.identity: told for told in map(_told, entries)}
                for receiver, entries in saved["open"].items()
            }
        except FileNotFoundError:
            self._open = {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StateError) as error:
            log.error("%s cannot be used (%s): open incidents may be told again", self._path, error)
            self._open = {}

    def text(self) -> str:
        """What `write` writes, as of now."""
        body = {
            "format": FORMAT,
            "open": {
                name: [{**told.alert.to_json(), "certain": told.certain} for told in opened.values()]
                for name, opened in self._open.items()
            },
        }
        return json.dumps(body)

    def write(self, text: str) -> None:
        """Writes the file. Raises OSError."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".tmp")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _told(entry: object) -> Told:
    alert = Alert.from_json(entry)
    return Told(alert, isinstance(entry, dict) and entry.get("certain") is True)
