"""From values on a dancing line to a pager that fails at first, with a kill in the middle: one page and one end."""

from __future__ import annotations

import json
import random
from pathlib import Path

import aiohttp

from agent.config import Objective, PagerDuty
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import ReceiverFigures
from agent.outputs.delivery.ledger import Ledger
from agent.outputs.delivery.notices import NoticeSender
from agent.outputs.delivery.pagerduty import PagerDutyReceiver
from agent.state import VerdictState
from agent.verdicts.incidents import Incidents
from agent.verdicts.status import Times, Track, step
from tests.outputs.delivery.pagers import Pager, T, pager
from tests.verdicts.alarms import deployment

PROMISED = 0.050
CLEAR_BELOW = 0.95
TPOT_MS = (49, 51, 49, 52, 48, 51, 53, 54, 55, 56, 57, 47, 46, 45, 44, 43)
KILLED_BEFORE_MINUTE = 10
TIMES = Times(hold_seconds=180.0, clear_seconds=180.0, gap_seconds=120.0)
OBJECTIVE = Objective(indicator="tpot", scope="decode", target=PROMISED, hold_seconds=180.0, clear_seconds=180.0)


class Process:
    """One pdwatch: a walk, incidents, a sender. Everything but the files and `saved` dies with it."""

    def __init__(self, duty: Pager, session: aiohttp.ClientSession, directory: Path, saved: str | None) -> None:
        self.track = Track()
        self.incidents = Incidents(deployment(OBJECTIVE))
        if saved is not None:
            document = json.loads(saved)
            self.track = Track.from_json(document["track"])
            self.incidents.restore(document["incidents"])
        self.ledger = Ledger(directory)
        self.ledger.load()
        receiver = PagerDutyReceiver(PagerDuty(routing_key="k" * 32, url=duty.url), session)
        self.figures = ReceiverFigures("pagerduty")
        self.sender = NoticeSender(receiver, self.figures, self.ledger, Backoff(random.Random(1)), lambda *_: False)

    def evaluate(self, value: float, now: float) -> str:
        """One judgement; returns what a save at this moment would hold."""
        bad = value > PROMISED
        signal = "bad" if bad else "good" if value < CLEAR_BELOW * PROMISED else "near"
        self.track = step(self.track, signal, now, TIMES).track  # type: ignore[arg-type]
        since = self.track.since(now)
        shown = VerdictState(
            "tpot", "decode", "breached" if bad else "met", self.track.status(now), since, "request_mean",
            value, value, value, PROMISED, 100,
        )  # fmt: skip
        self.incidents.evaluate([shown], [], now)
        return json.dumps({"track": self.track.to_json(), "incidents": self.incidents.save()})

    async def send(self, now: float) -> None:
        async def save() -> None:
            self.ledger.write(self.ledger.text())

        await self.sender.turn(self.incidents.alerts, now, now, lambda: True, save)


async def test_flapping_failures_and_a_kill_are_one_page_and_one_end(tmp_path: Path) -> None:
    async with pager(503, 503, 202) as duty, aiohttp.ClientSession() as session:
        process, saved = Process(duty, session, tmp_path, None), ""
        paged_at = None
        for minute, milliseconds in enumerate(TPOT_MS):
            if minute == KILLED_BEFORE_MINUTE:
                process = Process(duty, session, tmp_path, saved)
            for second in range(0, 60, 5):
                now = T + 60 * minute + second
                saved = process.evaluate(milliseconds / 1000, now)
                await process.send(now)
                if paged_at is None and duty.bodies:
                    paged_at = now - T
        assert [body["event_action"] for body in duty.bodies] == ["trigger", "resolve"]
        assert len({body["dedup_key"] for body in duty.bodies}) == 1
        # Bad without a break since minute 5; held for three minutes; two failures cost two short waits.
        assert paged_at is not None
        assert 480 <= paged_at <= 495
