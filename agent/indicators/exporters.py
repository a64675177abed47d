"""Pages beside the targets' own: NIXL's telemetry comes in, finer transfers and memory not given back go out.

vLLM's histogram of transfer times begins at 5 ms and counts what one connector moved; NIXL's own counters are exact to
the microsecond and cover every transfer of the process. They also tell what memory is registered for transfers: what
was registered and not given back is held in the server, whoever forgot it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.config import Config
from agent.config.exporters import exporter_pages
from agent.errors import PageError
from agent.indicators.transfer import kv_transfer
from agent.model import FailureObservation, Observation, PageObservation
from agent.reading.nixl_agent import nixl_agent
from agent.reading.page import PageReader
from agent.state import ExporterState
from agent.windows.increase import Increase, merged
from agent.windows.target import TargetWindow


@dataclass(slots=True)
class _Page:
    target: str
    window: TargetWindow
    reader: PageReader = field(default_factory=lambda: PageReader(vocabulary=nixl_agent()))


class Exporters:
    """All such pages of a deployment, over windows of up to `retain_seconds`."""

    def __init__(self, config: Config, retain_seconds: float) -> None:
        self._retain_seconds = retain_seconds
        self._pages: dict[str, _Page] = {}
        self.retarget(config)

    def retarget(self, config: Config) -> None:
        """Takes the pages of another configuration from now on; those that stay keep their history."""
        wanted = {page.name: page.target for page in exporter_pages(config)}
        self._pages = {
            name: self._pages.get(name) or _Page(target, TargetWindow(self._retain_seconds))
            for name, target in wanted.items()
        }

    def observe(self, observation: Observation) -> bool:
        """Takes what was seen of one of these pages; False for anything else."""
        if not isinstance(observation, PageObservation | FailureObservation):
            return False
        page = self._pages.get(observation.target)
        if page is None:
            return False
        if isinstance(observation, FailureObservation):
            page.window.failed(observation.t, observation.error, observation.text)
        elif page.window.latest is None or observation.t > page.window.latest.t:
            self._read(page, observation)
        return True

    def shift(self, seconds: float) -> None:
        """The wall clock was set by so much."""
        for page in self._pages.values():
            page.window.shift(seconds)

    def states(self, since: float, until: float) -> Mapping[str, ExporterState]:
        """Page -> what it said about the window."""
        return {name: _state(page, since, until) for name, page in self._pages.items()}

    def held_bytes(self, target: str, now: float) -> tuple[float, float] | None:
        """(bytes registered and not given back, over how many seconds) of a target, as far back as is kept.

        None where its page does not tell.
        """
        for page in self._pages.values():
            if page.target == target:
                gained = page.window.increases(now - self._retain_seconds, now)
                held = kv_transfer(merged(gained.engines.values()), "decode", gained.covered_seconds)
                if held.registered_growth_bytes is not None and gained.covered_seconds > 0:
                    return held.registered_growth_bytes, gained.covered_seconds
        return None

    def _read(self, page: _Page, observation: PageObservation) -> None:
        try:
            reading = page.reader.read(
                observation.t, observation.target, observation.page, observation.content_type, observation.took_seconds
            )
        except PageError as error:
            page.window.failed(observation.t, "unusable_page", str(error))
        else:
            page.window.take(reading)


def _state(page: _Page, since: float, until: float) -> ExporterState:
    gained = page.window.increases(since, until)
    total = merged(gained.engines.values()) if gained.engines else Increase()
    return ExporterState(
        target=page.target,
        age_s=page.window.age_seconds(until),
        covered_s=gained.covered_seconds,
        error=page.window.health.error or None,
        kv_transfer=kv_transfer(total, "both", gained.covered_seconds),
    )
