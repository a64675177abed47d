"""What is measured of a process and its container: samples come in, bytes that count go out.

Followed is anonymous memory with what of it was swapped out; page cache is never use. The limit of a process is its own
memory plus what the tightest of its container and its host have left.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from agent.indicators.memory.reading import TrendReading
from agent.model import CgroupSample, ProcessesObservation, ProcessSample

CONTAINER_TITLE = "container"
CGROUP_SLOT_SECONDS = 300.0
CGROUP_SLOTS = 864
CONFIRMED_SHARE = 0.5
"""The container's anonymous memory must have grown by this share of what the process did."""
Measure = Literal["anon+swap", "rss", "cgroup_anon"]


class ContainerHistory:
    """The anonymous memory of the container around one target, in slots of some minutes over three days."""

    def __init__(self, time_scale: float) -> None:
        self._slot_seconds = CGROUP_SLOT_SECONDS * time_scale
        self._slots: deque[tuple[float, float]] = deque(maxlen=CGROUP_SLOTS)

    def add(self, t: float, cgroup: CgroupSample | None) -> None:
        if cgroup is not None and cgroup.anon_bytes is not None and not cgroup.over_estimate:
            start = t - t % self._slot_seconds
            if not self._slots or start > self._slots[-1][0]:
                self._slots.append((start, float(cgroup.anon_bytes)))

    def grew(self, reading: TrendReading) -> bool | None:
        """Whether the container grew with the process over the window of its growth."""
        if not self._slots or reading.window_seconds is None or reading.growth_bytes is None:
            return None
        since = self._slots[-1][0] - reading.window_seconds
        if self._slots[0][0] > since + self._slot_seconds:
            return None
        then = next(value for start, value in reversed(self._slots) if start <= since + self._slot_seconds)
        return self._slots[-1][1] - then >= CONFIRMED_SHARE * reading.growth_bytes


def value_of(sample: ProcessSample) -> float | None:
    """What is followed: anonymous memory, what of it was swapped out, and huge pages; resident memory as a fallback."""
    if sample.anon_bytes is None:
        return float(sample.rss_bytes) if sample.rss_bytes is not None else None
    return float(sample.anon_bytes + (sample.swap_bytes or 0) + (sample.hugetlb_bytes or 0))


def measure_of(sample: ProcessSample) -> Measure:
    """The contract's word for `value_of`."""
    if sample.title == CONTAINER_TITLE:
        return "cgroup_anon"
    return "rss" if sample.anon_bytes is None else "anon+swap"


def container_sample(observation: ProcessesObservation) -> tuple[ProcessSample, ...]:
    """The container in place of its processes, when none of them is visible."""
    cgroup = observation.cgroup
    if cgroup is None or cgroup.anon_bytes is None:
        return ()
    return (
        ProcessSample(
            pid=0,
            title=CONTAINER_TITLE,
            anon_bytes=cgroup.anon_bytes,
            file_bytes=cgroup.file_bytes,
            shmem_bytes=cgroup.shmem_bytes,
        ),
    )


def limit_of(sample: ProcessSample, cgroup: CgroupSample | None, siblings: tuple[ProcessSample, ...]) -> float | None:
    """How large this process can get: its own memory plus what its container and host have left."""
    value = value_of(sample)
    if cgroup is None or value is None:
        return None
    left = []
    if cgroup.limit_bytes is not None:
        parts = (cgroup.anon_bytes, cgroup.shmem_bytes, cgroup.kernel_bytes)
        used = float(sum(part or 0 for part in parts))
        if cgroup.anon_bytes is None:
            used = sum(value_of(sibling) or 0.0 for sibling in siblings)
        left.append(cgroup.limit_bytes - used)
    if cgroup.host_available_bytes is not None:
        left.append(float(cgroup.host_available_bytes))
    return value + max(0.0, min(left)) if left else None
