"""Delivery as one part of the running pdwatch. In: the alerts as they are. Out: posts, until cancelled.

The one HTTP session for everything that is sent lives here, apart from the one that fetches pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import aiohttp

from agent.config import Config
from agent.outputs.delivery.delivery import Delivery
from agent.outputs.delivery.figures import DeliveryFigures
from agent.sources.clock import Clock
from agent.verdicts.alert import Alert


async def deliver(
    config: Config,
    clock: Clock,
    alerts: Callable[[], Sequence[Alert]],
    noted: Callable[[str, Exception], None],
    began: Callable[[DeliveryFigures], None],
) -> None:
    """Sends what `alerts` returns until cancelled. `began` is handed the figures that the metrics page shows."""
    async with aiohttp.ClientSession() as session:
        delivery = Delivery(config, session, clock, alerts, noted)
        began(delivery.figures)
        await delivery.run()
