"""The memory watch, pure: process readings come in, what each process's memory does goes out.

A process is told by (pid, start time); its *place* by target, title and engine, so that evidence survives a restart of
the server. Each place has one trend (does it grow for good?), one last-minute rule (is it about to be killed?) and the
work done beside it (what does growth follow?). What the trend says is explained in docs/memory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from agent.errors import StateError
from agent.indicators.memory.follows import Counts, Followed, Following
from agent.indicators.memory.imminent import ImminentOom, OomWatch
from agent.indicators.memory.measures import ContainerHistory, Measure, container_sample, limit_of, measure_of, value_of
from agent.indicators.memory.reading import Interval, Severity, TrendReading
from agent.indicators.memory.settings import TrendSettings
from agent.indicators.memory.trend import Trend
from agent.model import ProcessesObservation, ProcessSample, Role, SourceProblem
from agent.state import Bounded, MemoryState
from agent.windows.work import Work, WorkDone


class Place(NamedTuple):
    """Where a process stands, whichever process it is: survives restarts. `ordinal` tells equal titles apart."""

    target: str
    title: str
    engine: str | None
    ordinal: int


class Growth(NamedTuple):
    """What is said of one place now, for verdicts and for the state."""

    place: Place
    sample: ProcessSample
    at: float
    reading: TrendReading
    followed: Followed | None
    imminent: ImminentOom | None
    confirmed: bool | None
    """True when the container's anonymous memory grew as well; None when that cannot be seen."""
    limit_bytes: int | None
    measure: Measure
    closer_look: str = ""
    """What was found when the process itself was looked into, a sentence; empty where nobody did."""
    held_bytes: tuple[float, float] | None = None
    """(memory its server registered for transfers and did not give back, in how many seconds); None: not known."""

    def severity(self, page_within_hours: float) -> Severity | None:
        """That of the trend; growth that the container does not show as well never pages."""
        found = self.reading.severity(page_within_hours)
        return "warning" if found == "critical" and self.confirmed is False else found


class MemoryWatch:
    """Fed with the readings of all targets' processes, in time order.

    `work`: target -> the work its engines have done. `budget_bytes`: what known caches may fill, by configuration.
    """

    def __init__(
        self,
        work: Mapping[str, WorkDone],
        roles: Mapping[str, Role],
        budget_bytes: int | None = None,
        settings: TrendSettings | None = None,
    ) -> None:
        self._work, self.roles = work, roles
        self._budget_bytes = budget_bytes
        self.settings = settings or TrendSettings()
        self._places: dict[Place, _Watched] = {}
        self._latest: dict[str, ProcessesObservation] = {}
        self._containers: dict[str, ContainerHistory] = {}
        self._answering: dict[str, tuple[float, float]] = {}
        """Target -> (first, last) of its answers without a failure between them."""
        self._restored: dict[str, Any] = {}
        self._closer_looks: dict[tuple[int, float | None], str] = {}
        self.held_bytes: Callable[[str, float], tuple[float, float] | None] = lambda _target, _now: None
        """Asked by target and time for what `Growth.held_bytes` says."""

    def retarget(
        self, work: Mapping[str, WorkDone], roles: Mapping[str, Role], budget_bytes: int | None = None
    ) -> None:
        """Other targets are watched from now on; processes of those that are gone are forgotten."""
        self._work, self.roles, self._budget_bytes = work, roles, budget_bytes
        self._places = {place: watched for place, watched in self._places.items() if place.target in work}
        self._latest = {target: latest for target, latest in self._latest.items() if target in work}
        self._containers = {target: container for target, container in self._containers.items() if target in work}
        self._answering = {target: times for target, times in self._answering.items() if target in work}

    def page_seen(self, target: str, t: float) -> None:
        """The target's server answered: it is ready. What it needed to load is over."""
        first, _ = self._answering.get(target, (t, t))
        self._answering[target] = (first, t)

    def page_failed(self, target: str) -> None:
        """The target's server does not answer; new processes will be ready with its next answer."""
        self._answering.pop(target, None)

    def observe(self, observation: ProcessesObservation) -> None:
        """Takes one round of readings of one target's processes."""
        target, t = observation.target, observation.t
        self._latest[target] = observation
        container = self._containers.setdefault(target, ContainerHistory(self.settings.time_scale))
        container.add(t, observation.cgroup)
        samples = observation.processes or container_sample(observation)
        living: set[Place] = set()
        for place, sample in _placed(target, samples):
            living.add(place)
            watched = self._places.get(place)
            if watched is None:
                watched = self._places[place] = _Watched(self.settings, self._restored.pop(_key(place), None))
            work = self._work.get(target)
            done = work.of(sample.engine) if work is not None else Work()
            counts = Counts(work.until if work is not None else t, done.steps, done.requests, done.tokens)
            load = work.load(sample.engine) if work is not None else None
            limit = limit_of(sample, observation.cgroup, samples)
            budget = self._budget_bytes if self._budget_bytes is not None else sample.cache_budget_bytes
            watched.take(t, sample, counts, load, limit, budget, self._answering.get(target))
        for place in [place for place in self._places if place.target == target and place not in living]:
            self._places[place].gone_since(t)

    def growths(self, now: float) -> Iterator[Growth]:
        """Every process of every target's last reading, with what is said of it."""
        for place, watched in self._places.items():
            if watched.sample is None or watched.gone is not None:
                continue
            reading = watched.trend.reading(now, watched.limit_bytes, watched.budget_bytes)
            certain = reading.trend in ("growing", "leaking")
            window = reading.window_seconds or 0.0
            yield Growth(
                place=place,
                sample=watched.sample,
                at=watched.at,
                reading=reading,
                followed=watched.following.over(watched.at - max(window, 0.0)) if certain else None,
                imminent=watched.imminent,
                confirmed=self._containers[place.target].grew(reading) if certain else None,
                limit_bytes=round(watched.limit_bytes) if watched.limit_bytes is not None else None,
                measure=measure_of(watched.sample),
                closer_look=self._closer_looks.get((watched.sample.pid, watched.sample.started_seconds), ""),
                held_bytes=self.held_bytes(place.target, now) if certain else None,
            )

    def looked_into(self, pid: int, started_seconds: float | None, sentence: str) -> None:
        """Takes what a closer look at one process found; it is said for as long as the process lives."""
        living = {
            (watched.sample.pid, watched.sample.started_seconds) for watched in self._places.values() if watched.sample
        }
        self._closer_looks = {life: said for life, said in self._closer_looks.items() if life in living}
        self._closer_looks[pid, started_seconds] = sentence

    def source_problems(self) -> Iterator[tuple[float, SourceProblem]]:
        """(when, what) could not be read in the last round of each target."""
        for observation in self._latest.values():
            for problem in observation.problems:
                yield observation.t, problem

    def shift(self, seconds: float) -> None:
        """Moves the moments of readiness and death in time, after the clock was set by `seconds`.

        The trends keep their own count of time and find out by themselves.
        """
        self._answering = {
            target: (first + seconds, last + seconds) for target, (first, last) in self._answering.items()
        }

    def saved(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, document) of every place's trend."""
        for place, watched in self._places.items():
            yield _key(place), watched.save()

    def restore(self, documents: Mapping[str, dict[str, Any]]) -> None:
        """Takes saved trends up again as their processes are seen."""
        self._restored = {key: document for key, document in documents.items() if key.startswith("memory/")}

    def obsolete(self, key: str) -> bool:
        """True for the key of a target that is no longer watched."""
        return key.startswith("memory/") and key.split("/")[1] not in self._work


class _Watched:
    """One place: the process that stands there now and the history of all that did."""

    def __init__(self, settings: TrendSettings, saved: dict[str, Any] | None) -> None:
        self._settings = settings
        self.trend, self.oom = Trend(settings), OomWatch(settings)
        self.following = Following(settings)
        self.sample: ProcessSample | None = None
        self.at = 0.0
        self.limit_bytes: float | None = None
        self.budget_bytes: int | None = None
        self.imminent: ImminentOom | None = None
        self.gone: float | None = None
        self._identity: tuple[int, float | None] | None = None
        self._told_ready = False
        if saved is not None:
            try:
                self.trend = Trend.restore(saved["trend"], settings)
                pid, started = saved["identity"]
                self._identity = (int(pid), started)
            except (StateError, KeyError, TypeError, ValueError):
                self.trend, self._identity = Trend(settings), None  # damaged: this history begins anew

    def take(
        self,
        t: float,
        sample: ProcessSample,
        counts: Counts,
        load: float | None,
        limit_bytes: float | None,
        budget_bytes: int | None,
        answering: tuple[float, float] | None,
    ) -> None:
        """One reading of the process that stands here now."""
        identity = (sample.pid, sample.started_seconds)
        if self._identity is not None and not _same(identity, self._identity):
            self.trend.restarted(t)
            self.oom.restarted()
            self.following.restarted()
            self._told_ready = False
        self._identity, self.sample, self.at, self.gone = identity, sample, t, None
        self.limit_bytes, self.budget_bytes = limit_bytes, budget_bytes
        if answering is not None and not self._told_ready:
            self._tell_ready(sample.started_seconds, *answering)
        self.trend.bound(limit_bytes, budget_bytes)
        value = value_of(sample)
        self.trend.update(t, value, load)
        self.imminent = self.oom.update(t, value, limit_bytes)
        if value is not None:
            self.following.add(t, value, counts)

    def _tell_ready(self, began: float | None, first_answer: float, last_answer: float) -> None:
        """Once per life: warm-up is counted from the first answer of the server that this process belongs to."""
        if began is not None and last_answer < began:
            return  # only its predecessor has answered so far
        ready = first_answer if began is None or first_answer >= began else last_answer
        long_before_us = began is not None and ready - began > self._settings.warm_up_seconds
        since = began if long_before_us and began is not None else ready
        self.trend.ready(since)
        self.oom.ready(since)
        self._told_ready = True

    def gone_since(self, t: float) -> None:
        if self.gone is None:
            self.gone = t

    def save(self) -> dict[str, Any]:
        return {"trend": self.trend.save(), "identity": list(self._identity or (0, None))}


def memory_state(growth: Growth, page_within_hours: float) -> MemoryState:
    """One process as the state shows it. A rate or time that is not known has no value and no bounds."""
    sample, reading = growth.sample, growth.reading
    return MemoryState(
        target=growth.place.target,
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
        trend=reading.trend,
        severity=growth.severity(page_within_hours),
        slope_bytes_per_hour=_bounded(reading.slope_bytes_per_hour),
        limit_bytes=growth.limit_bytes,
        hours_to_limit=_bounded(reading.hours_to_limit),
        measure=growth.measure,
        at=growth.at,
        reason=reading.reason,
    )


def _bounded(interval: Interval | None) -> Bounded:
    return Bounded(None, None, None) if interval is None else Bounded(interval.value, interval.low, interval.high)


def _same(one: tuple[int, float | None], other: tuple[int, float | None]) -> bool:
    """Equal pids, and start times that do not contradict each other (a second is lost in rounding)."""
    if one[0] != other[0]:
        return False
    return one[1] is None or other[1] is None or abs(one[1] - other[1]) <= 2.0


def _placed(target: str, samples: tuple[ProcessSample, ...]) -> Iterator[tuple[Place, ProcessSample]]:
    seen: dict[tuple[str, str | None], int] = {}
    for sample in sorted(samples, key=lambda sample: (sample.started_seconds or 0.0, sample.pid)):
        ordinal = seen.get((sample.title, sample.engine), 0)
        seen[sample.title, sample.engine] = ordinal + 1
        yield Place(target, sample.title, sample.engine, ordinal), sample


def _key(place: Place) -> str:
    return f"memory/{place.target}/{place.title}/{place.engine if place.engine is not None else '-'}/{place.ordinal}"
