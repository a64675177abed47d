"""What is wrong with the fleet right now. In: incidents set it. Out: engines and router read it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Leak:
    """A process whose anonymous memory grows by `bytes_per_hour` between two moments. `until` None: it goes on."""

    target: str
    title: str
    bytes_per_hour: float
    since: float
    until: float | None = None

    def grown_bytes(self, t: float, started: float) -> float:
        """How much it has grown at `t` in a process that started at `started`."""
        end = t if self.until is None else min(t, self.until)
        return max(0.0, end - max(self.since, started)) / 3600.0 * self.bytes_per_hour


@dataclass(slots=True)
class Conditions:
    """Factors are 1 and shares 0 when all is well."""

    acceptance_factor: float = 1.0
    """On the chance of each draft position."""
    step_factor: float = 1.0
    """On every decode step."""
    prefill_factor: float = 1.0
    """On every prefill."""
    transfer_factor: float = 1.0
    """On the duration of KV transfers."""
    transfers_stall: bool = False
    """Transfers begin and do not end."""
    lapse_share: float = 0.0
    """Share of hand-overs whose lease runs out before decode has read them ..."""
    lapse_fails_share: float = 0.0
    """... and of those, the share that fails instead of reading what is there now."""
    fail_share: float = 0.0
    """Share of hand-overs whose KV cannot be loaded."""
    walk_away_share: float = 0.0
    """Share of clients that go away between prefill and decode."""
    leaks: list[Leak] = field(default_factory=list)
