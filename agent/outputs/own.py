"""pdwatch's own figures: what it costs and what went wrong inside it. In: counts of the runtime. Out: `OwnFigures`.

A watchdog that is itself overloaded, starved or broken has to say so on its own page.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.outputs.delivery.figures import DeliveryFigures

if TYPE_CHECKING:
    from agent.outputs.discovered import DiscoveryFigures
    from agent.sources.traces import TraceCounts
    from agent.sources.traces_forward import ForwardCounts

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class ReloadFigures:
    """Whether the configuration on disk was usable when it was last read, and when one last was (unix seconds)."""

    successful: bool
    succeeded: float


@dataclass(frozen=True, slots=True)
class OwnFigures:
    """At one moment. `started`: unix seconds; `errors`: where -> defects that were caught there.

    `exports`: result -> exports of metrics over OTLP; empty where none are made. `delivery`: of alerts, None where
    pdwatch sends none; `spans`, `forwarded`: None where none are taken in, or none go on to a collector. `discovery`,
    `reload`: None where nothing is looked for, or read again.
    """

    version: str
    python: str
    started: float
    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    loop_lag_seconds: float | None = None
    state_build_seconds: float | None = None
    observations: int = 0
    ignored_observations: int = 0
    skipped_scrapes: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    exports: Mapping[str, int] = field(default_factory=dict)
    delivery: DeliveryFigures | None = None
    spans: TraceCounts | None = None
    forwarded: ForwardCounts | None = None
    discovery: DiscoveryFigures | None = None
    reload: ReloadFigures | None = None


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    return time.process_time()


def resident_bytes() -> int | None:
    """Resident memory of this process; None where there is no /proc."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
