"""A receiver of Alertmanager's webhook form (version 4). In: one alert. Out: one post.

Whatever takes Alertmanager's webhooks takes these: one group of one alert, `groupKey` the same for all of an incident.
"""

from __future__ import annotations

from typing import Any

import aiohttp

from agent.config import Access, Webhook
from agent.outputs.delivery.answers import Answer, post_json
from agent.outputs.delivery.secret import Secret, SecretUnusable
from agent.outputs.delivery.times import NEVER, rfc3339
from agent.sources.http_access import AccessKeeper, AccessUnusable
from agent.verdicts.alert import Alert


class WebhookReceiver:
    """`external_url`: where a person can look, or ""."""

    def __init__(self, configured: Webhook, session: aiohttp.ClientSession, external_url: str = "") -> None:
        self._url = Secret(configured.url, configured.url_file)
        self._keeper = AccessKeeper(Access(configured.auth, configured.tls))
        self._session = session
        self._external_url = external_url

    def takes(self, _: Alert) -> bool:
        """Every alert."""
        return True

    async def send(self, alert: Alert, now: float) -> Answer:
        """Posts the alert as it stands."""
        try:
            url = self._url.read()
            authorization, tls = self._keeper.authorization(), self._keeper.tls_context()
        except (SecretUnusable, AccessUnusable) as error:
            return Answer("retry", "secret", str(error))
        headers = {"Authorization": authorization} if authorization else {}
        body = webhook_body(alert, self._external_url)
        return await post_json(self._session, url, body, now, headers=headers, tls=tls)


def webhook_body(alert: Alert, external_url: str = "") -> dict[str, Any]:
    """The message of version 4."""
    status = "firing" if alert.ends_at is None else "resolved"
    group = {name: alert.labels[name] for name in ("alertname", "deployment", "scope") if name in alert.labels}
    return {
        "version": "4",
        "groupKey": f"pdwatch:{alert.identity}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "pdwatch",
        "groupLabels": group,
        "commonLabels": dict(alert.labels),
        "commonAnnotations": dict(alert.annotations),
        "externalURL": external_url,
        "alerts": [
            {
                "status": status,
                "labels": dict(alert.labels),
                "annotations": dict(alert.annotations),
                "startsAt": rfc3339(alert.starts_at),
                "endsAt": NEVER if alert.ends_at is None else rfc3339(alert.ends_at),
                "generatorURL": external_url,
                "fingerprint": alert.identity[:16],
            }
        ],
    }
