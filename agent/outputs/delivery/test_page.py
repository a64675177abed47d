"""A marked test page by every configured way, end to end. In: a configuration. Out: what each receiver answered.

Where an incident is opened it is closed again; an Alertmanager is told an end four minutes ahead, since what ends at
once is never sent on. Maintenance windows and `alerting.path` do not hold it back: it is asked for by a person.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import aiohttp

from agent.config import Config
from agent.outputs.delivery.alertmanager import ENDS_AFTER_SECONDS, AlertmanagerSender
from agent.outputs.delivery.answers import Answer
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import ReceiverFigures
from agent.outputs.delivery.notices import Receiver
from agent.outputs.delivery.pagerduty import PagerDutyReceiver
from agent.outputs.delivery.slack import SlackReceiver
from agent.outputs.delivery.webhook import WebhookReceiver
from agent.verdicts.alert import Alert

TEST_ALERT = "PDWatchTest"


@dataclass(frozen=True, slots=True)
class SentTest:
    """One way. `receiver`: alertmanager (with its address), webhook, pagerduty, slack; `text`: for people."""

    receiver: str
    accepted: bool
    text: str


def send_test(config: Config, wall: Callable[[], float] = time.time) -> list[SentTest]:
    """Sends the test page now, one way after the other; empty where no receiver is configured."""
    return asyncio.run(_send(config, wall()))


async def _send(config: Config, now: float) -> list[SentTest]:
    page = marked_page(config, now)
    results = []
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        for manager in config.alerting.alertmanagers:
            sender = AlertmanagerSender(manager, session, ReceiverFigures("alertmanager"), Backoff())
            answer = await sender.post([page], now)
            says = f"taken; it ends by itself in {ENDS_AFTER_SECONDS / 60:.0f} min"
            results.append(_result(f"alertmanager {manager.url}", answer, says))
        for name, receiver in _receivers(config, session):
            answer = await receiver.send(page, now)
            if answer.kind == "accepted" and name != "slack":
                answer = await receiver.send(replace(page, ends_at=now), now)
            results.append(_result(name, answer, "taken" if name == "slack" else "taken, and its end too"))
    return results


def _receivers(config: Config, session: aiohttp.ClientSession) -> list[tuple[str, Receiver]]:
    alerting = config.alerting
    found: list[tuple[str, Receiver]] = [
        (f"webhook {number}", WebhookReceiver(webhook, session)) for number, webhook in enumerate(alerting.webhooks, 1)
    ]
    if alerting.pagerduty is not None:
        found.append(("pagerduty", PagerDutyReceiver(alerting.pagerduty, session)))
    if alerting.slack is not None:
        found.append(("slack", SlackReceiver(alerting.slack, session)))
    return found


def _result(receiver: str, answer: Answer, taken: str) -> SentTest:
    accepted = answer.kind == "accepted"
    return SentTest(receiver, accepted, taken if accepted else answer.text or answer.word)


def marked_page(config: Config, now: float) -> Alert:
    """The page: critical, so that it goes where real pages go, and marked in its name and in every text."""
    labels = {
        **dict(config.alerting.labels),
        "alertname": TEST_ALERT,
        "severity": "critical",
        "scope": "system",
        "code": "test",
    }
    if config.deployment:
        labels["deployment"] = config.deployment
    texts = {
        "summary": "TEST: nothing is wrong.",
        "description": "TEST page of pdwatch, sent by `pdwatch check --send-test`. Nothing has to be done.",
    }
    return Alert(labels, now, texts)
