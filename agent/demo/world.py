"""The demo as a whole: fleet, clock, processes, and the configuration with which pdwatch watches it.

In: a clock, a speed, the ports on which the servers answer. Out: pages and truth as of now, and a past to begin with:
the fleet has run for a while before anybody looks, and what a scraper would have seen of it is told first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Protocol

from agent.config import Config, Memory, Pool, Scrape, Target
from agent.demo.fleet import Fleet
from agent.demo.observations import observe
from agent.demo.pages import CONTENT_TYPE
from agent.demo.process_trees import LEAK_BYTES_PER_HOUR, LEAKING_TARGET, LEAKING_TITLE, ProcessTrees
from agent.demo.switchboard import Switchboard
from agent.demo.topology import story
from agent.demo.truth import Truth, truth
from agent.model import FailureObservation, PageObservation

__all__ = ["CONTENT_TYPE", "Clock", "DemoWorld", "target_names"]

SETTLE_SECONDS = 300.0
"""Before the past that is told: the batches fill up."""
PAST_SECONDS = 1200.0
RECENT_SECONDS = 360.0
"""What windows of five minutes see of it now."""
EVERY_SECONDS, RECENT_EVERY_SECONDS = 60.0, 30.0
"""Between two pages of the past, and of its recent part: each costs pdwatch time before its page can be opened."""
TRUTH_SECONDS = 300.0
REMEMBER_SECONDS = 900.0
TICK_SECONDS = 1.0
SCRAPE_SECONDS = 5.0
FASTEST_SCRAPES = 4.0
"""A target is asked at most this many times in a second of the machine, however fast the demo runs."""
MEMORY_TIME_SCALE = 1.0 / 60.0
"""What takes the memory watch hours takes minutes here."""


class Clock(Protocol):
    """Time as the demo and pdwatch live in it."""

    def wall(self) -> float:
        """Unix seconds."""

    def steady(self) -> float:
        """Seconds that only go forwards."""

    async def sleep_until(self, steady: float) -> None:
        """Return once `steady()` has reached this value."""


def target_names() -> tuple[str, ...]:
    """The servers of the demo, in the order of their ports."""
    topology = story()
    pools = (("prefill", topology.prefill), ("decode", topology.decode))
    return tuple(f"{role}-{index}" for role, pool in pools for index in range(pool.targets))


class DemoWorld:
    """One running demo. `host`: where pdwatch reaches the servers; `ports`: each server's, by name.

    `pdwatch_address` is told once pdwatch listens. No process is started without `with_processes`.
    """

    def __init__(
        self,
        clock: Clock,
        ports: Mapping[str, int],
        *,
        host: str = "127.0.0.1",
        speed: float = 1.0,
        with_processes: bool = True,
    ) -> None:
        self.clock = clock
        self.speed = speed
        self.ports = ports
        self.pdwatch_address = ""
        self.fleet = Fleet(story(), clock.wall() - PAST_SECONDS - SETTLE_SECONDS, REMEMBER_SECONDS)
        self.fleet.advance(clock.wall() - PAST_SECONDS)
        leak = {"target": LEAKING_TARGET, "title": LEAKING_TITLE, "bytes_per_hour": LEAK_BYTES_PER_HOUR}
        self.incidents = Switchboard(self.fleet, {"leak": leak})
        self.trees = ProcessTrees(ports) if with_processes else None
        self._host = f"[{host}]" if ":" in host else host
        self._told = False
        self._truth: tuple[float, Truth] | None = None

    @property
    def config(self) -> Config:
        """How pdwatch watches this fleet."""
        topology = self.fleet.topology
        pools = (("prefill", topology.prefill), ("decode", topology.decode))
        return Config(
            deployment="demo",
            pools=tuple(
                Pool(
                    name=name,
                    role="prefill" if name == "prefill" else "decode",
                    gpus_per_target=pool.engines,
                    targets=tuple(self._target(f"{name}-{index}") for index in range(pool.targets)),
                )
                for name, pool in pools
            ),
            scrape=Scrape(interval_seconds=max(SCRAPE_SECONDS, self.speed / FASTEST_SCRAPES)),
            memory=Memory(time_scale=MEMORY_TIME_SCALE),
        )

    def _target(self, name: str) -> Target:
        return Target(name, f"http://{self._host}:{self.ports[name]}/metrics")

    # -- the past ---------------------------------------------------------------------------------------------------

    def past(self) -> Iterator[tuple[float, Sequence[PageObservation | FailureObservation]]]:
        """(moment, what every server shows then), one after another until the fleet has come to now."""
        rng = Random(self.fleet.topology.seed)
        while (left := self.clock.wall() - self.fleet.now) >= TICK_SECONDS:
            every = EVERY_SECONDS if left > RECENT_SECONDS else RECENT_EVERY_SECONDS
            self.fleet.advance(self.fleet.now + min(every, left))
            yield self.fleet.now, [observe(self.fleet, target, rng) for target in self.fleet.targets]
        self._told = True

    # -- now --------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Lets happen what is due. While the past is still being told, time stands still for everybody else."""
        if self._told:
            self.fleet.advance(self.clock.wall())

    def page(self, target: str) -> str | None:
        """A server's metrics page now; None while it does not answer."""
        self.advance()
        return self.fleet.page(target)

    def truth(self) -> Truth:
        """What happened in the last five minutes, at most a second old."""
        self.advance()
        now = self.fleet.now
        if self._truth is None or now >= self._truth[0] + self.speed:
            self._truth = (now, truth(self.fleet, now - TRUTH_SECONDS, now))
        return self._truth[1]

    async def run(self) -> None:
        """Keeps fleet and processes going until it is cancelled."""
        while True:
            self.advance()
            self.tend_processes()
            await self.clock.sleep_until(self.clock.steady() + TICK_SECONDS)

    def tend_processes(self) -> None:
        """Brings the real processes to what their servers are now."""
        if self.trees is not None:
            self.trees.follow(self.fleet)

    def end(self) -> None:
        """Ends the processes."""
        if self.trees is not None:
            self.trees.end()
