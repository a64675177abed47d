"""Delivery as one part of the running pdwatch. In: the alerts as they are, the configuration as it is. Out: posts.

The one HTTP session for everything that is sent lives here, apart from the one that fetches pages. Another
configuration gets senders of its own once the posts that are on their way are answered: what a receiver was told stays
known, so that nothing is told twice and no end is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import aiohttp

from agent.config import Config
from agent.outputs.delivery.delivery import Delivery
from agent.outputs.delivery.figures import DeliveryFigures
from agent.sources.clock import Clock
from agent.verdicts.alert import Alert


class Deliveries:
    """Sends what `alerts` returns. `began` is handed the figures that the metrics page shows, after each change."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        alerts: Callable[[], Sequence[Alert]],
        noted: Callable[[str, Exception], None],
        began: Callable[[DeliveryFigures], None],
    ) -> None:
        self._config = config
        self._clock, self._alerts, self._noted, self._began = clock, alerts, noted, began
        self._changed = asyncio.Event()

    def reconfigure(self, config: Config) -> None:
        """Sends by another configuration from now on."""
        settings = (config.alerting, config.links, config.state_dir)
        if settings != (self._config.alerting, self._config.links, self._config.state_dir):
            self._changed.set()
        self._config = config

    async def run(self) -> None:
        """Sends until cancelled."""
        async with aiohttp.ClientSession() as session:
            before: Delivery | None = None
            while True:
                self._changed.clear()
                ledger = before.ledger if before is not None else None
                delivery = Delivery(self._config, session, self._clock, self._alerts, self._noted, ledger=ledger)
                self._began(delivery.figures)
                async with asyncio.TaskGroup() as group:
                    group.create_task(delivery.run(), name="delivery")
                    await self._changed.wait()
                    delivery.finish()
                before = delivery
