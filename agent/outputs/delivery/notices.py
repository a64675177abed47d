"""One begin and one end per incident, for a receiver that does not merge. In: all alerts, again and again. Out: posts.

What the ledger says the receiver was told is compared with what is so; the difference waits in a bounded queue in which
the newest state of an incident wins. A begin is tried as long as it is so; an end is given up after some hours. What
is refused is not sent again as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from agent.outputs.delivery.answers import Answer
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import ReceiverFigures
from agent.outputs.delivery.ledger import Ledger, Told
from agent.outputs.delivery.queue import Queue
from agent.verdicts.alert import Alert

GIVE_UP_SECONDS = 4 * 3600.0
FORGOTTEN_SECONDS = 1800.0
"""An open incident that nobody has known of for so long (its history was lost) is closed."""
MOST_IN_A_TURN = 20


class Receiver(Protocol):
    """PagerDuty, Slack, a webhook."""

    def takes(self, alert: Alert) -> bool:
        """Whether the receiver wants to know of this alert."""

    async def send(self, alert: Alert, now: float) -> Answer:
        """One post; never raises for what the receiver does."""


class NoticeSender:
    """`saved`: makes the ledger last; `figures` are counted into, and name the receiver in the ledger."""

    def __init__(
        self,
        receiver: Receiver,
        figures: ReceiverFigures,
        ledger: Ledger,
        backoff: Backoff,
        is_muted: Callable[[Alert, float], bool],
    ) -> None:
        self._receiver = receiver
        self._figures = figures
        self._ledger = ledger
        self._backoff = backoff
        self._is_muted = is_muted
        self._queue = Queue()
        self._refused: dict[str, tuple[float, bool]] = {}
        """Identity -> begin, and whether it was the end, of what the receiver does not want as it is."""
        self._unknown_since: dict[str, float] = {}
        self._not_before = float("-inf")

    async def turn(
        self,
        alerts: Sequence[Alert],
        now: float,
        steady: float,
        may_send: Callable[[], bool],
        save: Callable[[], Awaitable[object]],
    ) -> None:
        """Queues what is new and sends what is due. `may_send`: the lease, asked before each post."""
        if not may_send():
            self.stand_by()
            return
        self._fill(alerts, now, steady)
        sent = 0
        while steady >= self._not_before and sent < MOST_IN_A_TURN and may_send():
            waiting = self._queue.first()
            if waiting is None:
                break
            alert = waiting.alert
            if alert.ends_at is not None and steady - waiting.since > GIVE_UP_SECONDS:
                self._queue.done(alert)
                self._ledger.open(self._figures.name).pop(alert.identity, None)
                self._figures.drop("it is long over and could not be sent")
                await save()
                continue
            sent += 1
            if self._note_attempt(alert):
                await save()
            answer = await self._receiver.send(alert, now)
            self._figures.note(answer, now)
            if answer.kind == "retry":
                self._not_before = steady + self._backoff.failed(answer.retry_after_seconds)
                break
            self._backoff.succeeded()
            self._queue.done(alert)
            if answer.kind == "refused":
                self._refused[alert.identity] = (alert.starts_at, alert.ends_at is not None)
            self._note_outcome(alert, answer)
            await save()
        self._figures.queued = len(self._queue)

    def stand_by(self) -> None:
        """Another replica sends: what waits here is its matter."""
        self._queue.clear()
        self._refused.clear()
        self._unknown_since.clear()
        self._figures.queued = 0

    def _note_attempt(self, alert: Alert) -> bool:
        """A begin about to be posted for the first time: from here on its end has to be told."""
        told = self._ledger.open(self._figures.name)
        if alert.ends_at is not None or alert.identity in told:
            return False
        told[alert.identity] = Told(alert, certain=False)
        return True

    def _note_outcome(self, alert: Alert, answer: Answer) -> None:
        told = self._ledger.open(self._figures.name)
        if alert.ends_at is None and answer.kind == "accepted":
            told[alert.identity] = Told(alert, certain=True)
        else:
            told.pop(alert.identity, None)

    def _fill(self, alerts: Sequence[Alert], now: float, steady: float) -> None:
        told = self._ledger.open(self._figures.name)
        known = {alert.identity: alert for alert in alerts if self._receiver.takes(alert)}
        self._refused = {identity: state for identity, state in self._refused.items() if identity in known}
        for identity, alert in known.items():
            if self._refused.get(identity) == (alert.starts_at, alert.ends_at is not None):
                continue
            if alert.ends_at is None:
                if identity in told and told[identity].certain:
                    # An end that waits is no longer so, or never was told: the receiver has it as firing still.
                    self._queue.forget(identity)
                elif identity in told or not self._is_muted(alert, now):
                    self._put(alert, steady)
            elif identity in told or identity in self._queue:
                self._put(alert, steady)
        for identity, open_incident in told.items():
            if identity in known:
                self._unknown_since.pop(identity, None)
            elif steady - self._unknown_since.setdefault(identity, steady) >= FORGOTTEN_SECONDS:
                self._put(_over(open_incident.alert, now), steady)

    def _put(self, alert: Alert, steady: float) -> None:
        dropped = self._queue.put(alert, steady)
        if dropped is not None:
            self._figures.drop("too many others wait")


def _over(alert: Alert, now: float) -> Alert:
    """The alert as ended, with a word on why."""
    texts = {**alert.annotations, "description": "pdwatch knows no more of this incident; it is taken to be over."}
    return Alert(alert.labels, alert.starts_at, texts, max(now, alert.starts_at))
