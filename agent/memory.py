"""The memory watch, pure: process readings come in, what each process's memory does goes out.

One detector per process of a target; a process is told by (pid, start time), its place by (target, title), so that
evidence survives a restart of the server. What the detector says is explained in docs/memory.md.
"""

from __future__ import annotations

from agent.model import Problem, ProcessesObservation, ProcessSample
from agent.state import Bounded, MemoryState

UNKNOWN = Bounded(None, None, None)
GONE_AFTER_SECONDS = 120.0


class MemoryWatch:
    """Fed with the readings of all targets' processes, in time order."""

    def __init__(self) -> None:
        self._latest: dict[str, ProcessesObservation] = {}

    def observe(self, observation: ProcessesObservation) -> None:
        """Takes one round of readings of one target's processes."""
        self._latest[observation.target] = observation

    def states(self, now: float) -> tuple[MemoryState, ...]:
        """Every process of every target's last reading."""
        return tuple(
            _state(observation, sample, now)
            for observation in self._latest.values()
            for sample in observation.processes
        )

    def problems(self) -> list[Problem]:
        """What could not be read."""
        return [
            Problem(problem.code, observation.target, observation.t, problem.text)
            for observation in self._latest.values()
            for problem in observation.problems
        ]


def _state(observation: ProcessesObservation, sample: ProcessSample, now: float) -> MemoryState:
    limit = observation.cgroup.limit_bytes if observation.cgroup is not None else None
    return MemoryState(
        target=observation.target,
        pid=sample.pid,
        started=sample.started_seconds,
        title=sample.title,
        kind=sample.kind,
        engine=sample.engine,
        rss_bytes=sample.rss_bytes,
        anon_bytes=sample.anon_bytes,
        swap_bytes=sample.swap_bytes,
        file_bytes=sample.file_bytes,
        shmem_bytes=sample.shmem_bytes,
        trend="unknown",
        severity=None,
        slope_bytes_per_hour=UNKNOWN,
        limit_bytes=limit,
        hours_to_limit=UNKNOWN,
        measure="anon+swap" if sample.anon_bytes is not None else ("rss" if sample.rss_bytes is not None else None),
        at=observation.t,
    )
