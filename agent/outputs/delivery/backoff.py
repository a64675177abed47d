"""How long to wait before trying again. In: failures in a row. Out: seconds, longer each time, never quite the same.

The chance in it keeps many senders, which a receiver's outage has brought into step, from coming back all at once.
"""

from __future__ import annotations

import random

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0


class Backoff:
    """`chance`: a source of numbers in [0, 1)."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self.failures = 0

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """Seconds until the next attempt: half to all of 1, 2, 4 ... 60, and at least what the receiver asked for."""
        whole = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return max(whole * (0.5 + 0.5 * self._chance.random()), retry_after_seconds or 0.0)

    def succeeded(self) -> None:
        """The next failure is the first again."""
        self.failures = 0
