"""All ways that alerts are sent by, running. In: the alerts as they are now. Out: posts, each way by itself.

Every receiver has a task of its own, so that one that hangs keeps neither another nor a scrape waiting. Nothing is sent
on the way out: alerts that fire go on firing, whoever looks after them next.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp

from agent.config import Config
from agent.outputs.delivery.alertmanager import AlertmanagerSender
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import DeliveryFigures
from agent.outputs.delivery.lease import BEAT_SECONDS, Lease
from agent.outputs.delivery.ledger import Ledger
from agent.outputs.delivery.muting import is_muted
from agent.outputs.delivery.notices import NoticeSender, Receiver
from agent.outputs.delivery.pagerduty import PagerDutyReceiver
from agent.outputs.delivery.slack import SlackReceiver
from agent.outputs.delivery.webhook import WebhookReceiver
from agent.sources.clock import Clock
from agent.verdicts.alert import Alert

TURN_SECONDS = 1.0

log = logging.getLogger("pdwatch")


class Delivery:
    """Sends what `alerts` returns (active, and ended within 15 minutes) until cancelled, or until `finish`.

    `session` is used and not closed. `noted`: takes a defect and where it was, as everywhere in pdwatch. `ledger`: of a
    delivery that has finished, to go on with what receivers know.
    """

    def __init__(
        self,
        config: Config,
        session: aiohttp.ClientSession,
        clock: Clock,
        alerts: Callable[[], Sequence[Alert]],
        noted: Callable[[str, Exception], None],
        *,
        chance: random.Random | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._alerts = alerts
        self._noted = noted
        directory = None if config.state_dir is None else Path(config.state_dir)
        self.lease = Lease(directory)
        self.ledger = ledger if ledger is not None else Ledger(directory)
        self._finishing = asyncio.Event()
        self._writing = asyncio.Lock()
        self.figures = DeliveryFigures(muted=self._count_muted, holds_lease=lambda: self.lease.is_held(clock.steady()))
        alerting = config.alerting
        self._managers = [
            AlertmanagerSender(manager, session, self.figures.of("alertmanager"), Backoff(chance))
            for manager in alerting.alertmanagers
        ]
        receivers: list[tuple[str, Receiver]] = [
            ("webhook", WebhookReceiver(webhook, session, config.links.dashboards or ""))
            for webhook in alerting.webhooks
        ]
        if alerting.pagerduty is not None:
            receivers.append(("pagerduty", PagerDutyReceiver(alerting.pagerduty, session)))
        if alerting.slack is not None:
            receivers.append(("slack", SlackReceiver(alerting.slack, session)))
        self._noticers = [
            NoticeSender(receiver, self.figures.of(name), self.ledger, Backoff(chance), self._muted)
            for name, receiver in receivers
        ]
        self.figures.leased = bool(self._noticers) and self.is_needed

    @property
    def is_needed(self) -> bool:
        """Whether there is anybody to send to, and this pdwatch is the one to do it."""
        return self._config.alerting.path == "direct" and self._config.alerting.sends_directly

    def finish(self) -> None:
        """Lets `run` end as soon as no post is on its way."""
        self._finishing.set()

    async def run(self) -> None:
        """Sends until cancelled or finished; with nobody to send to, only waits."""
        if not self.is_needed:
            await self._finishing.wait()
            return
        works: list[tuple[str, Callable[[], Awaitable[None]], float]] = [
            ("alertmanager", lambda manager=manager: self._turn_manager(manager), TURN_SECONDS)  # type: ignore[misc]
            for manager in self._managers
        ]
        if self._noticers:
            await self._beat()
            works.append(("lease", self._beat, BEAT_SECONDS))
            works += [
                ("notices", lambda noticer=noticer: self._turn_noticer(noticer), TURN_SECONDS)  # type: ignore[misc]
                for noticer in self._noticers
            ]
        try:
            async with asyncio.TaskGroup() as group:
                for name, work, every in works:
                    group.create_task(self._again_and_again(name, work, every), name=f"delivery {name}")
        finally:
            self.lease.release()

    async def _again_and_again(self, name: str, work: Callable[[], Awaitable[None]], every_seconds: float) -> None:
        while not self._finishing.is_set():
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - noted; whatever is wrong with one turn, the next one comes
                self._noted(f"delivery {name}", error)
            await self._pause(every_seconds)

    async def _pause(self, seconds: float) -> None:
        """Waits that long, or until there is nothing more to do."""
        waits = [
            asyncio.ensure_future(self._clock.sleep_until(self._clock.steady() + seconds)),
            asyncio.ensure_future(self._finishing.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _beat(self) -> None:
        held_before = self.lease.is_held(self._clock.steady())
        try:
            held = await asyncio.to_thread(self.lease.renew, self._clock.steady())
        except OSError as error:
            self._noted("delivery lease", error)
            self.lease.failed(self._clock.steady())
            return
        if held and not held_before:
            await asyncio.to_thread(self.ledger.load)
            if self._config.state_dir is not None:
                log.info("this pdwatch holds the lease: it posts to PagerDuty, Slack and webhooks")

    async def _turn_manager(self, manager: AlertmanagerSender) -> None:
        now = self._clock.wall()
        shown = [alert for alert in self._alerts() if not self._muted(alert, now)]
        await manager.turn(shown, now, self._clock.steady())

    async def _turn_noticer(self, noticer: NoticeSender) -> None:
        await noticer.turn(
            self._alerts(),
            self._clock.wall(),
            self._clock.steady(),
            lambda: self.lease.is_held(self._clock.steady()),
            self._save,
        )

    async def _save(self) -> None:
        """Before the next post, so that a kill does not find an accepted one unwritten; on a thread, as disks hang."""
        async with self._writing:
            try:
                if not self.lease.is_held(self._clock.steady()) and await asyncio.to_thread(self.lease.is_anothers):
                    return  # slept meanwhile: the file is another replica's by now
                await asyncio.to_thread(self.ledger.write, self.ledger.text())
            except OSError as error:
                self._noted("delivery ledger", error)

    def _count_muted(self) -> int:
        now = self._clock.wall()
        return sum(alert.ends_at is None and self._muted(alert, now) for alert in self._alerts())

    def _muted(self, alert: Alert, now: float) -> bool:
        return bool(self._config.alerting.mute) and is_muted(alert, self._config.alerting.mute, now)
