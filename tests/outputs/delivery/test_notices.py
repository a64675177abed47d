"""PagerDuty, Slack and webhooks: one begin and one end per incident, whatever the receiver answers meanwhile."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.config import PagerDuty, Slack, Webhook
from agent.outputs.delivery import answers
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import ReceiverFigures
from agent.outputs.delivery.ledger import FILE_NAME, Ledger
from agent.outputs.delivery.notices import FORGOTTEN_SECONDS, GIVE_UP_SECONDS, NoticeSender, Receiver
from agent.outputs.delivery.pagerduty import PagerDutyReceiver
from agent.outputs.delivery.slack import SlackReceiver, message
from agent.outputs.delivery.webhook import WebhookReceiver
from agent.verdicts.alert import Alert
from tests.outputs.delivery.pagers import T, alert, free_port, pager

KEY = "0123456789abcdef0123456789abcdef"
FIRING, OVER = alert(), alert(ended=T + 600)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@dataclass
class Sender:
    """A sender with a clock turned by hand and a ledger in `directory`."""

    receiver: Receiver
    directory: Path | None = None
    muted: bool = False
    leading: bool = True
    steady: float = 0.0
    figures: ReceiverFigures = field(default_factory=lambda: ReceiverFigures("pager"))

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.directory)
        self.ledger.load()
        backoff = Backoff(random.Random(1))
        self.sender = NoticeSender(self.receiver, self.figures, self.ledger, backoff, lambda *_: self.muted)

    async def turn(self, alerts: Sequence[Alert], seconds: float = 1.0) -> None:
        """One turn, `seconds` after the last."""
        self.steady += seconds
        await self.sender.turn(alerts, T + self.steady, self.steady, lambda: self.leading, self._save)

    async def _save(self) -> None:
        self.ledger.write(self.ledger.text())


def pagerduty(url: str, session: aiohttp.ClientSession) -> PagerDutyReceiver:
    return PagerDutyReceiver(PagerDuty(routing_key=KEY, url=url), session)


def actions(bodies: Sequence[Any]) -> list[str]:
    return [body["event_action"] for body in bodies]


async def test_two_failures_and_a_restart_are_one_trigger_and_one_resolve(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with pager(503, 503) as duty:
        first = Sender(pagerduty(duty.url, session), tmp_path)
        for _ in range(20):
            await first.turn([FIRING])
        assert actions(duty.bodies) == ["trigger"]
        assert first.figures.failures == {"http_503": 2}
        # Killed, and started again: what was told is known, and its end still comes.
        second = Sender(pagerduty(duty.url, session), tmp_path)
        for _ in range(5):
            await second.turn([FIRING])
        for _ in range(5):
            await second.turn([OVER])
        assert actions(duty.bodies) == ["trigger", "resolve"]
        assert {body["dedup_key"] for body in duty.bodies} == {FIRING.identity}
        third = Sender(pagerduty(duty.url, session), tmp_path)
        await third.turn([OVER])
        assert len(duty.bodies) == 2


async def test_attempts_move_apart_and_a_receiver_s_own_wish_is_kept(session: aiohttp.ClientSession) -> None:
    async with pager(*[500] * 9) as duty:
        sender = Sender(pagerduty(duty.url, session))
        for _ in range(60):
            await sender.turn([FIRING])
        assert 4 <= len(duty.posts) <= 7
    async with pager(429, retry_after="100") as duty:
        sender = Sender(pagerduty(duty.url, session))
        for _ in range(100):
            await sender.turn([FIRING])
        assert len(duty.posts) == 1
        await sender.turn([FIRING])
        assert len(duty.bodies) == 1


async def test_what_is_refused_is_counted_and_not_tried_again_as_it_is(session: aiohttp.ClientSession) -> None:
    async with pager(400, 202) as duty:
        sender = Sender(pagerduty(duty.url, session))
        for _ in range(100):
            await sender.turn([FIRING], 60)
        assert len(duty.posts) == 1
        assert sender.figures.failures == {"http_400": 1}
        await sender.turn([alert(began=T + 9000)])
        assert actions(duty.bodies) == ["trigger"]


async def test_a_receiver_that_refuses_connections_or_hangs_is_tried_again(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TIMEOUT_SECONDS", 0.1)
    refusing = Sender(pagerduty(f"http://127.0.0.1:{free_port()}", session))
    await refusing.turn([FIRING])
    assert refusing.figures.failures == {"connection": 1}
    assert refusing.figures.queued == 1
    async with pager(0) as duty:
        hanging = Sender(pagerduty(duty.url, session))
        await hanging.turn([FIRING])
        assert hanging.figures.failures == {"timeout": 1}
        await hanging.turn([FIRING], 60)
        assert actions(duty.bodies) == ["trigger"]


async def test_an_incident_that_came_and_went_during_an_outage_is_told_as_over(session: aiohttp.ClientSession) -> None:
    async with pager(503) as hook:
        sender = Sender(WebhookReceiver(Webhook(url=hook.url), session))
        await sender.turn([FIRING])
        await sender.turn([OVER], 60)
        assert [body["status"] for body in hook.bodies] == ["resolved"]


async def test_a_kill_between_a_post_and_its_answer_loses_no_end(
    session: aiohttp.ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TIMEOUT_SECONDS", 0.1)
    async with pager(0) as duty:
        await Sender(pagerduty(duty.url, session), tmp_path).turn([FIRING])
        # Killed; the incident ends meanwhile.
        await Sender(pagerduty(duty.url, session), tmp_path).turn([OVER])
        assert actions(duty.posts) == ["trigger", "resolve"]


async def test_an_end_that_cannot_be_sent_for_hours_is_given_up_but_a_page_never(
    session: aiohttp.ClientSession,
) -> None:
    async with pager(202, *[503] * 9) as duty:
        sender = Sender(pagerduty(duty.url, session))
        await sender.turn([FIRING])
        await sender.turn([OVER])
        await sender.turn([OVER], GIVE_UP_SECONDS + 1)
        assert (sender.figures.dropped, sender.figures.queued) == (1, 0)
    async with pager(503, 503) as duty:
        sender = Sender(pagerduty(duty.url, session))
        for _ in range(3):
            await sender.turn([FIRING], GIVE_UP_SECONDS + 1)
        assert actions(duty.bodies) == ["trigger"]


async def test_two_incidents_have_two_keys_and_a_new_one_pages_again(session: aiohttp.ClientSession) -> None:
    async with pager() as duty:
        sender = Sender(pagerduty(duty.url, session))
        await sender.turn([FIRING, alert("ttft")])
        await sender.turn([OVER, alert("ttft")])
        await sender.turn([alert(began=T + 900), alert("ttft")])
        assert actions(duty.bodies) == ["trigger", "trigger", "resolve", "trigger"]
        assert duty.bodies[0]["dedup_key"] != duty.bodies[1]["dedup_key"]
        assert duty.bodies[0]["dedup_key"] == duty.bodies[3]["dedup_key"]


async def test_only_the_holder_of_the_lease_posts_and_the_next_one_goes_on(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with pager() as duty:
        one, other = (Sender(pagerduty(duty.url, session), tmp_path, leading=leading) for leading in (True, False))
        for sender in (one, other):
            await sender.turn([FIRING])
        one.leading, other.leading = False, True
        other.ledger.load()
        for sender in (one, other):
            await sender.turn([FIRING])
            await sender.turn([OVER])
        assert actions(duty.bodies) == ["trigger", "resolve"]


async def test_what_is_muted_is_told_when_the_window_is_over_and_ends_are_told_always(
    session: aiohttp.ClientSession,
) -> None:
    async with pager() as duty:
        sender = Sender(pagerduty(duty.url, session), muted=True)
        await sender.turn([FIRING])
        assert duty.posts == []
        sender.muted = False
        await sender.turn([FIRING])
        sender.muted = True
        await sender.turn([OVER])
        assert actions(duty.bodies) == ["trigger", "resolve"]


async def test_an_open_incident_that_nobody_knows_of_is_closed_in_the_end(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with pager() as duty:
        await Sender(pagerduty(duty.url, session), tmp_path).turn([FIRING])
        later = Sender(pagerduty(duty.url, session), tmp_path)
        await later.turn([])
        await later.turn([], FORGOTTEN_SECONDS - 10)
        assert actions(duty.bodies) == ["trigger"]
        await later.turn([], 20)
        assert actions(duty.bodies) == ["trigger", "resolve"]


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1, "open": {"pager": [{}]}}', '{"format": 9, "open": {}}'])
async def test_a_damaged_ledger_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    ledger = Ledger(tmp_path)
    ledger.load()
    assert ledger.open("pager") == {}


async def test_a_warning_wakes_nobody_but_is_written_to_the_channel(session: aiohttp.ClientSession) -> None:
    ticket = alert(severity="warning")
    async with pager() as duty, pager() as channel:
        await Sender(pagerduty(duty.url, session)).turn([ticket])
        await Sender(SlackReceiver(Slack(url=channel.url), session)).turn([ticket])
        assert (len(duty.posts), len(channel.posts)) == (0, 1)


async def test_the_pagerduty_event_is_complete_and_within_its_limits(session: aiohttp.ClientSession) -> None:
    async with pager() as duty:
        long = Alert(FIRING.labels, T, {**FIRING.annotations, "description": "x" * 4000})
        await Sender(pagerduty(duty.url, session)).turn([long])
        (event,) = duty.bodies
        assert event["routing_key"] == KEY
        assert len(event["payload"]["summary"]) == 1024
        assert event["payload"]["severity"] == "critical"
        assert event["payload"]["timestamp"] == "2023-11-14T22:13:20.000Z"
        assert event["links"] == [{"href": "https://docs.example/runbooks.md#x", "text": "Runbook"}]
        assert len(json.dumps(event)) < 512 * 1024


async def test_the_webhook_has_alertmanager_s_form(session: aiohttp.ClientSession) -> None:
    async with pager() as hook:
        sender = Sender(WebhookReceiver(Webhook(url=hook.url + "/path"), session))
        await sender.turn([FIRING])
        await sender.turn([OVER])
        begin, end = hook.bodies
        assert hook.paths == ["/path", "/path"]
        assert begin["version"] == "4"
        assert begin["groupKey"] == end["groupKey"]
        assert (begin["status"], end["status"]) == ("firing", "resolved")
        assert begin["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
        assert end["alerts"][0]["endsAt"] == "2023-11-14T22:23:20.000Z"
        assert begin["commonLabels"] == FIRING.labels


async def test_secrets_come_from_files_anew_each_time_and_are_in_no_log(
    session: aiohttp.ClientSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "url"
    async with pager(404) as hook:
        sender = Sender(SlackReceiver(Slack(url_file=str(file)), session))
        await sender.turn([FIRING])
        assert sender.figures.failures == {"secret": 1}
        file.write_text(hook.url + "/services/T0/B0/verysecret\n")
        await sender.turn([FIRING], 60)
        assert hook.paths == ["/services/T0/B0/verysecret"]
    await sender.turn([alert("ttft")], 600)
    assert sender.figures.failures == {"secret": 1, "http_404": 1, "connection": 1}
    assert caplog.records
    assert "verysecret" not in caplog.text


def test_a_text_cannot_mention_anybody_on_slack() -> None:
    told = message(Alert(FIRING.labels, T, {"summary": "<!channel> & co", "description": "<https://x|y>"}))
    assert "<" not in told["text"] + told["attachments"][0]["text"]
    assert message(OVER)["attachments"][0]["text"].startswith("From 22:13:20 UTC to 22:23:20 UTC (10 min).")
