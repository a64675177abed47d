"""What a watch keeps over a restart. Out: documents by key. In: the same documents, taken up one by one.

Every document stands for itself: one that is damaged, or of another version, costs what is in it and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent.errors import StateError
from agent.indicators.memory.watch import MemoryWatch
from agent.indicators.percentiles.recovered import Recovered
from agent.indicators.requests import Requests
from agent.verdicts.incidents import Incidents
from agent.verdicts.objectives import Objectives
from agent.windows import saved as saved_windows
from agent.windows.fleet import FleetWindows

MOST_NAMED = 3
"""Lost documents that an error names; the rest is counted."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """The parts of a watch that outlive it."""

    windows: FleetWindows
    memory: MemoryWatch
    recovered: Recovered
    requests: Requests
    objectives: Objectives
    incidents: Incidents

    def saved(self, whole: bool) -> Iterator[tuple[str, Document]]:
        """(key, document); of the pools' slots only what changed since the last call. See `Watch.saved`."""
        yield "objectives", self.objectives.save()
        yield "incidents", self.incidents.save()
        yield from saved_windows.saved(self.windows)
        if whole:
            yield from self.memory.saved()
            yield from self.recovered.saved()
            yield from self.requests.save()

    def save_again(self) -> None:
        """What was given out last could not be written: the next `saved` gives it again."""
        for history in self.windows.pools.values():
            history.fine.all_changed()
            history.coarse.all_changed()

    def restore(self, documents: Mapping[str, Document]) -> None:
        """Takes up all that can be. Raises StateError, after that, naming what was lost and why."""
        self.memory.restore(documents)  # looks at each when its process is seen
        lost = []
        for key, document in documents.items():
            take_up = self._taking_up(key, document)
            try:
                if take_up is not None:
                    take_up()
            except StateError as error:
                lost.append((key, error))
            except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
                lost.append((key, StateError(f"damaged ({error!r})")))
        if lost:
            named = "; ".join(f"{key}: {error}" for key, error in lost[:MOST_NAMED])
            more = f"; and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
            text = (
                f"{len(lost)} of {len(documents)} saved documents could not be taken up and begin anew: {named}{more}"
            )
            raise StateError(text) from lost[0][1]

    def obsolete(self, key: str) -> bool:
        """True for the key of a saved document that nothing will ask for again."""
        return saved_windows.obsolete(self.windows, key) or self.memory.obsolete(key) or self.requests.obsolete(key)

    def _taking_up(self, key: str, document: Document) -> Callable[[], None] | None:
        """How one document is taken up; None for one that another part looks after, or that nothing knows."""
        by_room: dict[str, Callable[[], None]] = {
            "objectives": partial(self.objectives.restore, document),
            "incidents": partial(self.incidents.restore, document),
            "windows": partial(saved_windows.restore, self.windows, {key: document}),
            "recovered": partial(self.recovered.restore, {key: document}),
            "requests": partial(self.requests.restore, {key: document}),
        }
        return by_room.get(key.split("/", maxsplit=1)[0])
