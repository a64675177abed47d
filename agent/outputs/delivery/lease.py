"""Which of several replicas posts where nobody merges (PagerDuty, Slack, webhooks). In: the state directory they share.
Out: held or not.

The holder writes its name and a growing number into a file every few seconds. Another takes the lease once the number
has stood still for `EXPIRES_SECONDS` of its own steady clock, so that no clocks are compared; at once when the holder
gave it back, or died on the same host (its lock is then free). A holder that slept finds another name in the file
and is no longer one. Every change is made under a lock of its own, so that two cannot take it together.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

BEAT_SECONDS = 5.0
EXPIRES_SECONDS = 30.0
GUARD_SECONDS, GUARD_EVERY_SECONDS = 3.0, 0.005
"""How long the lock of a change is waited for, and between two tries: changes take milliseconds."""
FILE_NAME = "delivery.lease"
GUARD_NAME = "delivery.lease.lock"
LIFE_NAME = "delivery.lease.life"


class Lease:
    """`directory` None: there is nobody to share with, and the lease is always held. `host`: which machine this is."""

    def __init__(self, directory: Path | None, host: str | None = None) -> None:
        self._directory = directory
        self._host = socket.gethostname() if host is None else host
        self._name = secrets.token_hex(8)
        self._beat = 0
        self._life: IO[str] | None = None
        self._seen: tuple[str, int] | None = None
        self._seen_at = float("-inf")
        self._held_at = float("-inf")
        self._failing_since: float | None = None
        self._is_over = False

    def is_held(self, steady: float) -> bool:
        """Whether the last renewal is young enough that nobody can have taken the lease since."""
        return self._directory is None or steady - self._held_at < EXPIRES_SECONDS / 2

    def is_anothers(self) -> bool:
        """Whether another has taken it by now, as the file says. Does file I/O. Raises OSError."""
        return self._directory is not None and self._read().get("holder", self._name) != self._name

    def renew(self, steady: float) -> bool:
        """Takes or keeps the lease where that is right; True when held. Does file I/O. Raises OSError."""
        if self._directory is None:
            return True
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._guarded(GUARD_SECONDS):
            record = self._read()
            if self._is_over or not self._may_take(record, steady):
                self._held_at, self._failing_since = float("-inf"), None
                self._end_life()
                return False
            self._begin_life()
            self._beat += 1
            self._write({"holder": self._name, "host": self._host, "beat": self._beat})
        self._held_at, self._failing_since = steady, None
        return True

    def failed(self, steady: float) -> None:
        """A renewal raised: when none has succeeded for the lease's whole life, a page twice is better than none."""
        if self._failing_since is None:
            self._failing_since = steady
        if steady - self._failing_since >= EXPIRES_SECONDS:
            self._held_at = steady

    def release(self) -> None:
        """Gives the lease back for good, so that another need not wait. A renewal still on a thread takes nothing."""
        self._is_over = True
        if self._directory is not None:
            with suppress(OSError), self._guarded(0.5):  # in the event loop, on the way out; otherwise it expires
                if self._read().get("holder") == self._name:
                    self._write({})
        self._held_at = float("-inf")
        self._end_life()

    @contextmanager
    def _guarded(self, wait_seconds: float) -> Iterator[None]:
        """The lock under which the lease changes. Raises TimeoutError: whoever has it may have been put to sleep."""
        assert self._directory is not None
        with (self._directory / GUARD_NAME).open("a") as guard:
            give_up = time.monotonic() + wait_seconds
            while True:
                try:
                    fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= give_up:
                        raise TimeoutError(f"{guard.name}: another process has had its lock for too long") from None
                    time.sleep(GUARD_EVERY_SECONDS)
            yield

    def _may_take(self, record: dict[str, Any], steady: float) -> bool:
        holder, beat = record.get("holder"), record.get("beat")
        if not isinstance(holder, str) or not isinstance(beat, int) or holder == self._name:
            return True
        if self._seen != (holder, beat):
            self._seen, self._seen_at = (holder, beat), steady
        if steady - self._seen_at >= EXPIRES_SECONDS:
            return True
        return record.get("host") == self._host and self._life_is_free()

    def _life_is_free(self) -> bool:
        assert self._directory is not None
        with (self._directory / LIFE_NAME).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _begin_life(self) -> None:
        """A lock that the kernel ends with the process. A sleeping holder may have it still: then there is none."""
        assert self._directory is not None
        if self._life is None:
            life = (self._directory / LIFE_NAME).open("a")
            try:
                fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                life.close()
            else:
                self._life = life

    def _end_life(self) -> None:
        if self._life is not None:
            self._life.close()
            self._life = None

    def _read(self) -> dict[str, Any]:
        assert self._directory is not None
        try:
            record = json.loads((self._directory / FILE_NAME).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def _write(self, record: dict[str, Any]) -> None:
        assert self._directory is not None
        beside = self._directory / f"{FILE_NAME}.{self._name}"
        with beside.open("w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._directory / FILE_NAME)
