"""A recording played as if it happened now. In: a recording that can be read again and again, a speed, a clock.
Out: its observations, each at its moment, with all times moved to now. Why: a first look without a fleet of one's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from agent.model import (
    ClockStepObservation,
    Observation,
    ProcessesObservation,
    SpansObservation,
)
from agent.sources.clock import Clock, ClockWatch, SystemClock

SHIPPED_RECORDING = Path(__file__).parents[2] / "data" / "real-fleet.jsonl.gz"
"""Thirteen minutes of a real prefill/decode fleet, from the start of its servers (`docs/recordings.md`)."""

PAUSE_SECONDS = 5.0
"""Recorded time between the end of a recording and its next beginning: about one scrape."""


async def play(
    recording: Callable[[], Iterable[Observation]],
    speed: float = 1.0,
    clock: Clock | None = None,
    *,
    loop: bool = True,
) -> AsyncIterator[Observation]:
    """Plays what `recording()` gives, `speed` times as fast, over and over unless `loop` is False.

    Every loop begins as if all servers had been restarted: their counters start again from the recording's first
    page, and every process has a start time of its own, so that no two loops are taken for one life. What is counted
    after such a restart is what the first page holds; record from the start of the servers, as the shipped one does.
    Ends when a recording holds no observation. Raises RecordingError as reading does, ValueError for a speed <= 0.
    """
    if speed <= 0:
        raise ValueError(f"speed must be above 0, not {speed}")
    clock = clock or SystemClock()
    watch = ClockWatch(clock)
    offset = clock.wall() - clock.steady()
    begin = clock.steady()
    while True:
        first: float | None = None
        last = begin
        begin_wall = begin + offset
        for observation in recording():
            if isinstance(observation, ClockStepObservation):
                continue  # the recorder's clock, not ours
            first = observation.t if first is None else first
            last = begin + (observation.t - first) / speed
            await clock.sleep_until(last)
            step = watch.look()
            if step is not None:
                offset += step.step_seconds
                yield step
            if isinstance(observation, ProcessesObservation):
                observation = _restarted(observation, first, begin_wall, speed)
            yield _moved(observation, last + offset)
        if first is None or not loop:
            return
        begin = last + PAUSE_SECONDS / speed


def _restarted(
    observation: ProcessesObservation, first: float, begin_wall: float, speed: float
) -> ProcessesObservation:
    """The processes with start times of this loop: the same in all of its readings, and in no other loop's."""
    processes = tuple(
        replace(
            process,
            started_seconds=begin_wall
            if process.started_seconds is None
            else begin_wall + (process.started_seconds - first) / speed,
        )
        for process in observation.processes
    )
    return replace(observation, processes=processes)


def _moved(observation: Observation, t: float) -> Observation:
    """The observation at time `t`; spans move as far, and stay as long as they were."""
    if isinstance(observation, SpansObservation):
        by = t - observation.t
        spans = tuple(replace(span, start=span.start + by, end=span.end + by) for span in observation.spans)
        return replace(observation, t=t, spans=spans)
    return replace(observation, t=t)
