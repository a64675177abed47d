"""What a sidecar answers. In: the JSON value of `/api/v1/processes`. Out: typed readings, checked like foreign input.

    {"type": "processes", "at": T, "instance": "hex",
     "observations": [{"t": T, "target": "...", "port": 8000, "processes": [...], "cgroup": {...}, "problems": [...]}]}

Each observation is a recording's line of processes; `port` is the port of the target's page as the sidecar knows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlsplit

from agent.config import Target
from agent.model import CgroupSample, ProcessesObservation, ProcessSample
from agent.sources.recordings.lines import decode

MOST_OBSERVATIONS = 64
MOST_PROCESSES = 1000
MOST_TEXT = 400
SOURCE_CODES = ("process_gone", "process_unreadable", "engine_frozen")


class SidecarUnusable(Exception):
    """An answer, or a part of it, that cannot be taken; a sentence."""


@dataclass(frozen=True, slots=True)
class Readings:
    """All of one answer. `at`: the sidecar's clock when it answered; `instance`: the same while its process lives."""

    at: float
    instance: str
    observations: Mapping[str, ProcessesObservation]
    ports: Mapping[str, int]

    def of(self, target: Target) -> ProcessesObservation:
        """The reading of a target: by its name, else by the port of its page. Raises SidecarUnusable."""
        if target.name in self.observations:
            return self.observations[target.name]
        parts = urlsplit(target.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        same = [name for name in self.observations if self.ports.get(name) == port]
        if len(same) == 1:
            return self.observations[same[0]]
        known = ", ".join(f"{name} ({self.ports.get(name, 'port not known')})" for name in self.observations)
        raise SidecarUnusable(f"it reads {known or 'no target'}: none is named {target.name} or alone on port {port}")


def read_readings(value: object) -> Readings:
    """Raises SidecarUnusable for what is of another form, or holds a number that cannot be."""
    if not isinstance(value, dict) or value.get("type") != "processes":
        raise SidecarUnusable("its answer is not that of /api/v1/processes; is it a pdwatch, and recent enough?")
    at: Any = value.get("at")
    instance, listed = value.get("instance"), value.get("observations")
    if not _is_number(at) or not isinstance(instance, str) or not isinstance(listed, list):
        raise SidecarUnusable("its answer lacks 'at', 'instance' or 'observations'")
    if len(listed) > MOST_OBSERVATIONS:
        raise SidecarUnusable(f"it reads more than {MOST_OBSERVATIONS} targets")
    observations: dict[str, ProcessesObservation] = {}
    ports: dict[str, int] = {}
    for line in listed:
        try:
            (observation,) = decode(line)
        except ValueError as error:
            raise SidecarUnusable(f"an observation cannot be read: {error}"[:MOST_TEXT]) from None
        if not isinstance(observation, ProcessesObservation) or not _is_name(observation.target):
            raise SidecarUnusable("an observation is not one of processes, or its target has no usable name")
        observations[observation.target] = _checked(observation)
        port = line.get("port")
        if isinstance(port, int) and not isinstance(port, bool):
            ports[observation.target] = port
    return Readings(float(at), instance[:64], observations, ports)


def _checked(observation: ProcessesObservation) -> ProcessesObservation:
    if len(observation.processes) > MOST_PROCESSES or len(observation.problems) > MOST_PROCESSES:
        raise SidecarUnusable(f"{observation.target} has more than {MOST_PROCESSES} processes")
    samples: list[ProcessSample | CgroupSample] = [*observation.processes]
    if observation.cgroup is not None:
        samples.append(observation.cgroup)
    for sample in samples:
        if any(_is_below_zero(getattr(sample, field.name)) for field in fields(sample)):
            raise SidecarUnusable(f"{observation.target} has a number below 0")
    if not all(_is_name(process.title, blanks=True) for process in observation.processes):
        raise SidecarUnusable(f"a process of {observation.target} has no usable title")
    problems = tuple(
        replace(problem, text="".join(c if c.isprintable() else "?" for c in problem.text[:MOST_TEXT]))
        for problem in observation.problems
        if problem.code in SOURCE_CODES
    )
    return replace(observation, problems=problems)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # JSON's whole numbers may have any length
        return False


def _is_below_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and value < 0


def _is_name(text: str, *, blanks: bool = False) -> bool:
    return 0 < len(text) <= 253 and text.isprintable() and (blanks or not any(c.isspace() for c in text))
