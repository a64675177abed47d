"""A Slack incoming webhook. In: one alert that began or ended. Out: one message for people."""

from __future__ import annotations

from typing import Any

import aiohttp

from agent.config import Slack
from agent.outputs.delivery.answers import Answer, post_json
from agent.outputs.delivery.secret import Secret, SecretUnusable
from agent.outputs.delivery.times import clock_time
from agent.verdicts.alert import Alert
from agent.verdicts.wording import duration

MOST_CHARACTERS = 3000
_COLOURS = {"critical": "#c0392b", "warning": "#d68910"}
_OVER_COLOUR = "#1e8449"
_LINKS = {"runbook_url": "runbook", "dashboard_url": "dashboard", "evidence": "evidence"}


class SlackReceiver:
    """One channel."""

    def __init__(self, configured: Slack, session: aiohttp.ClientSession) -> None:
        self._url = Secret(configured.url, configured.url_file)
        self._session = session

    def takes(self, _: Alert) -> bool:
        """Every alert."""
        return True

    async def send(self, alert: Alert, now: float) -> Answer:
        """Posts one message."""
        try:
            url = self._url.read()
        except SecretUnusable as error:
            return Answer("retry", "secret", str(error))
        return await post_json(self._session, url, message(alert), now)


def message(alert: Alert) -> dict[str, Any]:
    """The text for clients that show text alone, and the same with a colour for the others."""
    labels, texts = alert.labels, alert.annotations
    where = " / ".join(
        labels[name] for name in ("deployment", "scope", "target", "engine", "process") if name in labels
    )
    over = alert.ends_at is not None
    word = "RESOLVED" if over else alert.severity.upper()
    head = _escaped(f"{word} {where}: {texts.get('summary', alert.name)}")
    lines = [_escaped(texts.get("description", ""))]
    if not over and texts.get("cause"):
        lines.append(f"*Cause:* {_escaped(texts['cause'])}")
    if alert.ends_at is not None:
        lasted = duration(alert.ends_at - alert.starts_at)
        lines = [f"From {clock_time(alert.starts_at)} to {clock_time(alert.ends_at)} ({lasted})."]
    lines.append(" | ".join(_link(texts[name], word) for name, word in _LINKS.items() if texts.get(name)))
    body = "\n".join(line for line in lines if line)[:MOST_CHARACTERS]
    colour = _OVER_COLOUR if over else _COLOURS.get(alert.severity, "#7f8c8d")
    return {
        "text": f"*{head}*",
        "attachments": [{"color": colour, "text": body, "fallback": body, "footer": f"pdwatch {alert.name}"}],
    }


def _link(address: str, word: str) -> str:
    if not address.startswith(("http://", "https://")):
        return f"{word}: `{_escaped(address)}`"
    return f"<{_escaped(address).replace('|', '%7C')}|{word}>"


def _escaped(text: str) -> str:
    """Slack's three: what a name or a text holds must not become a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
