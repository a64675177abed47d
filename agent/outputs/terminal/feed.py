"""The document, again and again. In: a function that fetches it, a clock. Out: the last one, and how old it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent.errors import ViewerError
from agent.outputs.terminal.client import STATE_PATH
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.screen import Seen
from agent.sources.clock import Clock

EVERY_SECONDS = 2.0


class Feed:
    """`fetch` gives a document or raises ViewerError. `changed` is called after every try."""

    def __init__(self, fetch: Callable[[], Awaitable[Part]], clock: Clock, changed: Callable[[], None]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._changed = changed
        self._document = Part()
        self._came_at = clock.steady()
        self._trouble = ""

    async def first(self) -> None:
        """The first document. Raises ViewerError: who names a wrong address learns it at once."""
        self._take(await self._fetch())

    async def run(self) -> None:
        """Goes on until cancelled; a server that is gone is asked again and again."""
        while True:
            await self._clock.sleep_until(self._clock.steady() + EVERY_SECONDS)
            try:
                self._take(await self._fetch())
            except ViewerError as error:
                said = str(error)
                self._trouble = said.partition(f"{STATE_PATH} ")[2] or said  # its viewer knows the address
            self._changed()

    def seen(self) -> Seen:
        """What is known now."""
        return Seen(self._document, self._clock.steady() - self._came_at, self._trouble)

    def _take(self, document: Part) -> None:
        self._document, self._came_at, self._trouble = document, self._clock.steady(), ""
