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

INTERVAL_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One begin that was sent. `at`: when; `ended_at` None: it still goes on. `alert`: its last state."""

    at: float
    alert: Alert
    ended_at: float | None = None

    @property
    def about(self) -> str:
        """What is named: the alert without `PDWatch`, and its objective, target and engine where it has them."""
        labels = self.alert.labels
        where = [labels[name] for name in ("objective", "target", "engine") if name in labels]
        return " ".join([self.alert.name.removeprefix("PDWatch"), *where])

    @property
    def is_page(self) -> bool:
        return self.alert.severity == "critical"


class _NotRecovered(Recovered):
    """Takes no distribution in: recovering them is four fifths of the work and no mean asks for it."""

    def take(self, t: float, target: str, gained: object) -> None:
        pass


def watch_of(fleet: Fleet) -> Watch:
    """A watch with the default objectives over all targets of the fleet. Both are means, so no alert needs a quantile."""
    config = replace(config_from_names(fleet.targets), scrape=Scrape(INTERVAL_SECONDS))
    assert all(objective.statistic == "mean" for objective in config.objectives)
    watch = Watch(config)
    watch.recovered = _NotRecovered({})
    return watch


def play(fleet: Fleet, until: float, watch: Watch | None = None) -> list[Sent]:
    """Everything sent from now to `until`, in order of time."""
    watch = watch or watch_of(fleet)
    told: list[Sent] = []
    current: dict[str, int] = {}
    for now in _evaluations(fleet, until, watch):
        watch.evaluate(now)
        for alert in watch.incidents.alerts:
            index = current.get(alert.identity)
            if alert.ends_at is None:
                if index is None:
                    current[alert.identity] = len(told)
                    told.append(Sent(now, alert))
                else:
                    told[index] = replace(told[index], alert=alert)
            elif index is not None:
                told[index] = replace(told[index], ended_at=now)
                del current[alert.identity]
    return told


def _evaluations(fleet: Fleet, until: float, watch: Watch) -> Iterator[float]:
    """Observes everything up to `until`, and gives each moment at which to evaluate."""
    due = fleet.now + INTERVAL_SECONDS
    for observation in observations(fleet, fleet.now, until, INTERVAL_SECONDS):
        while observation.t > due:
            yield due
            due += INTERVAL_SECONDS
        watch.observe(observation)
