"""A secret that is given in place or as a file. In: one of the two. Out: its text, read anew each time it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 1 << 16


class SecretUnusable(Exception):
    """A secret's file that cannot be read; the message names the file and never its content."""


@dataclass(frozen=True, slots=True)
class Secret:
    """`value`, or the file that holds it. A rotated file needs no restart."""

    value: str | None = field(repr=False)
    file: str | None = None

    def read(self) -> str:
        """The secret. Raises SecretUnusable."""
        if self.value:
            return self.value
        try:
            with Path(str(self.file)).open("rb") as file:
                text = file.read(MOST_BYTES + 1).decode("utf-8").strip()
        except OSError as error:
            raise SecretUnusable(f"{self.file}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SecretUnusable(f"{self.file}: is not text (UTF-8)") from None
        if not text or not text.isprintable() or len(text) > MOST_BYTES:
            raise SecretUnusable(f"{self.file}: must hold one line, the secret and nothing else")
        return text
