"""Plays a fleet through the whole pure engine. In: a fleet and an end. Out: every alert that would have been sent.

Observations go to the watch as a scraper would bring them; it is evaluated every 15 s of virtual time, as live. What
counts as sent is what `incidents.alerts` shows for the first time: once per begin, once per end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent.config import Scrape, config_from_names
from agent.demo import Fleet, observations
from agent.indicators.percentiles.recovered import Recovered
from agent.verdicts.alert import Alert
from agent.watch import Watch
from agent.windows.interval import Interval

INTERVAL_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One begin that was sent. `at`: when; `ended_at` None: it still goes on. `alert`: with its texts as last read."""

    at: float
    alert: Alert
    ended_at: float | None = None

    @property
    def about(self) -> str:
        """The alert without `PDWatch`, and its objective, or its target and engine, or its pool."""
        labels = self.alert.labels
        names = ("target", "engine") if "target" in labels else ("objective",) if "objective" in labels else ("scope",)
        where = [labels[name] for name in names if name in labels]
        return " ".join([self.alert.name.removeprefix("PDWatch"), *where])

    @property
    def is_page(self) -> bool:
        return self.alert.severity == "critical"


class _NotRecovered(Recovered):
    """Takes no distribution in: recovering them is four fifths of the work, and no mean asks for it."""

    def take(self, pool: str, target: str, interval: Interval, metrics: frozenset[str] = frozenset()) -> None:
        pass


def watch_of(fleet: Fleet, interval_seconds: float = INTERVAL_SECONDS) -> Watch:
    """A watch with the default objectives over all targets; both are means, so no alert needs quantiles."""
    config = replace(config_from_names(fleet.targets), scrape=Scrape(interval_seconds))
    assert all(objective.statistic == "mean" for objective in config.objectives)
    watch = Watch(config)
    watch.recovered = _NotRecovered({})
    return watch


def play(
    fleet: Fleet, until: float, read_until: float | None = None, interval_seconds: float = INTERVAL_SECONDS
) -> list[Sent]:
    """Everything sent from now to `until`, in order of time.

    `read_until`: texts are read for the last time then (or when sent, if that is later); None: until the alert ends.
    """
    watch = watch_of(fleet, interval_seconds)
    told: list[Sent] = []
    current: dict[str, int] = {}
    for now in _evaluations(fleet, until, watch, interval_seconds):
        watch.evaluate(now)
        for alert in watch.incidents.alerts:
            index = current.get(alert.identity)
            if alert.ends_at is None and index is None:
                current[alert.identity] = len(told)
                told.append(Sent(now, alert))
            elif alert.ends_at is None and index is not None and (read_until is None or now <= read_until):
                told[index] = replace(told[index], alert=alert)
            elif alert.ends_at is not None and index is not None:
                told[index] = replace(told[index], ended_at=now)
                del current[alert.identity]
    return told


def _evaluations(fleet: Fleet, until: float, watch: Watch, interval_seconds: float) -> Iterator[float]:
    """Observes everything up to `until`, and gives each moment at which to evaluate."""
    due = fleet.now + interval_seconds
    for observation in observations(fleet, fleet.now, until, interval_seconds):
        while observation.t > due:
            yield due
            due += interval_seconds
        watch.observe(observation)
