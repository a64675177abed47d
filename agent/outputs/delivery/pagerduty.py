"""PagerDuty's Events API v2. In: one alert. Out: a trigger or a resolve with the incident's own `dedup_key`.

Only critical alerts go there: who is on call is woken by them, and a warning is a ticket.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from agent.config import PagerDuty
from agent.outputs.delivery.answers import Answer, post_json
from agent.outputs.delivery.secret import Secret, SecretUnusable
from agent.outputs.delivery.times import rfc3339
from agent.verdicts.alert import Alert

MOST_SUMMARY_CHARACTERS = 1024
_LINKS = {"runbook_url": "Runbook", "dashboard_url": "Dashboard", "evidence": "Evidence"}


class PagerDutyReceiver:
    """One service's integration."""

    def __init__(self, configured: PagerDuty, session: aiohttp.ClientSession) -> None:
        self._url = configured.url
        self._routing_key = Secret(configured.routing_key, configured.routing_key_file)
        self._session = session

    def takes(self, alert: Alert) -> bool:
        """Whether this is for PagerDuty at all."""
        return alert.severity == "critical"

    async def send(self, alert: Alert, now: float) -> Answer:
        """Opens or closes the incident."""
        try:
            routing_key = self._routing_key.read()
        except SecretUnusable as error:
            return Answer("retry", "secret", str(error))
        return await post_json(self._session, self._url, event(alert, routing_key), now)


def event(alert: Alert, routing_key: str) -> dict[str, Any]:
    """The event of version 2."""
    head = {"routing_key": routing_key, "dedup_key": alert.identity}
    if alert.ends_at is not None:
        return {**head, "event_action": "resolve"}
    labels, texts = alert.labels, alert.annotations
    said = " ".join(text for text in (texts.get("summary"), texts.get("description")) if text)
    deployment = labels.get("deployment", "")
    return {
        **head,
        "event_action": "trigger",
        "client": "pdwatch",
        "payload": {
            "summary": f"[{deployment}] {said or alert.name}"[:MOST_SUMMARY_CHARACTERS],
            "source": labels.get("target") or deployment or "pdwatch",
            "severity": "critical" if alert.severity == "critical" else "warning",
            "timestamp": rfc3339(alert.starts_at),
            "component": labels.get("scope", ""),
            "group": deployment,
            "class": labels.get("objective") or labels.get("code") or alert.name,
            "custom_details": {**labels, **texts},
        },
        "links": [
            {"href": texts[name], "text": text}
            for name, text in _LINKS.items()
            if texts.get(name, "").startswith(("http://", "https://"))
        ],
    }
