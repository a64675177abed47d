"""Alerts for one Alertmanager, as Prometheus sends them. In: all alerts, again and again. Out: posts to its v2 API.

Firing alerts are sent at once, and again every minute with an end four minutes ahead: should pdwatch die, Alertmanager
ends them by itself. Ended ones are sent at once with their real end, and again until they are forgotten (15 minutes).
Alertmanager merges what several replicas send, so no lease is needed. A failed post is made anew from the newest state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from agent.config import Access, Alertmanager
from agent.outputs.delivery.answers import Answer, post_json
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import ReceiverFigures
from agent.outputs.delivery.times import rfc3339
from agent.sources.http_access import AccessKeeper, AccessUnusable
from agent.verdicts.alert import Alert

RESEND_SECONDS = 60.0
ENDS_AFTER_SECONDS = 4 * RESEND_SECONDS
MOST_IN_A_POST = 64
"""As Prometheus has it; a smaller post loses less when one alert in it is refused."""

_State = tuple[float, float | None]


class AlertmanagerSender:
    """One Alertmanager of the list. `figures` are counted into."""

    def __init__(
        self, configured: Alertmanager, session: aiohttp.ClientSession, figures: ReceiverFigures, backoff: Backoff
    ) -> None:
        base = urlsplit(configured.url)
        self._url = base._replace(path=base.path.rstrip("/") + "/api/v2/alerts").geturl()
        self._keeper = AccessKeeper(Access(configured.auth, configured.tls))
        self._session = session
        self._figures = figures
        self._backoff = backoff
        self._sent: dict[str, tuple[_State, float]] = {}
        """Identity -> the state that was taken last, and when (steady seconds)."""
        self._not_before = float("-inf")

    async def turn(self, alerts: Sequence[Alert], now: float, steady: float) -> None:
        """Sends what is due; call it every second or so. Never raises for what the receiver does."""
        due = [alert for alert in alerts if self._is_due(alert, steady)]
        self._figures.queued = len(due)
        known = {alert.identity for alert in alerts}
        self._sent = {identity: sent for identity, sent in self._sent.items() if identity in known}
        if steady < self._not_before:
            return
        for begin in range(0, len(due), MOST_IN_A_POST):
            batch = due[begin : begin + MOST_IN_A_POST]
            answer = await self.post(batch, now)
            self._figures.note(answer, now)
            if answer.kind == "retry":
                self._not_before = steady + self._backoff.failed(answer.retry_after_seconds)
                return
            self._backoff.succeeded()
            # What is refused comes again with the next minute: Alertmanager may have taken the rest of the batch.
            for alert in batch:
                self._sent[alert.identity] = ((alert.starts_at, alert.ends_at), steady)
            self._figures.queued -= len(batch)

    async def post(self, alerts: Sequence[Alert], now: float) -> Answer:
        """One post of these alerts."""
        try:
            authorization, tls = self._keeper.authorization(), self._keeper.tls_context()
        except AccessUnusable as error:
            return Answer("retry", "secret", str(error))
        headers = {"Authorization": authorization} if authorization else {}
        body = [postable(alert, now) for alert in alerts]
        return await post_json(self._session, self._url, body, now, headers=headers, tls=tls)

    def _is_due(self, alert: Alert, steady: float) -> bool:
        sent = self._sent.get(alert.identity)
        return sent is None or sent[0] != (alert.starts_at, alert.ends_at) or steady - sent[1] >= RESEND_SECONDS


def postable(alert: Alert, now: float) -> dict[str, Any]:
    """One alert in the form of the v2 API."""
    ends_at = now + ENDS_AFTER_SECONDS if alert.ends_at is None else alert.ends_at
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": rfc3339(alert.starts_at),
        "endsAt": rfc3339(max(ends_at, alert.starts_at)),
    }
