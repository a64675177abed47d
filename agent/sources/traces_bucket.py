"""How much may come in: a token bucket. In: amounts and the steady time. Out: what is granted."""

from __future__ import annotations


class TokenBucket:
    """Fills by `per_second` up to `burst`; starts full."""

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._level, self._at = burst, now

    def grant(self, wanted: int, now: float) -> int:
        """How many of `wanted` may pass; they are taken."""
        granted = min(wanted, max(0, int(self._filled(now))))
        self._level -= granted
        return granted

    def charge(self, amount: float, now: float) -> None:
        """Takes a cost that has already arisen; the level may fall below zero."""
        self._level = self._filled(now) - amount

    def wait_seconds(self, now: float) -> float:
        """Until anything passes again; 0 when it does now."""
        return max(0.0, -self._filled(now) / self._per_second)

    def _filled(self, now: float) -> float:
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._per_second)
        self._at = now
        return self._level
