"""What pdwatch does again and again while it runs: judge, write the log, keep its history, measure its own lag.

In: the live watch. Out: alerts to be told, evidence, log lines, saved documents. Each duty is a coroutine that the
runtime starts; one that breaks is noted and started again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from agent.errors import StateError
from agent.outputs.events import Changes, EventLog
from agent.outputs.live import Live
from agent.sources.clock import Clock
from agent.sources.examination import Examiner, Life
from agent.store import Store

EVENTS_EVERY_SECONDS = 15.0
EVIDENCE_EVERY_SECONDS = 30.0
HISTORY_EVERY_SECONDS = 15.0
SAVE_EVERY_SECONDS = 15.0
SAVE_FIRST_SECONDS = 2.0
SAVE_WHOLE_EVERY_SECONDS = 300.0
EXAMINE_EVERY_SECONDS = 15.0
LAG_EVERY_SECONDS = 1.0
LAG_REMEMBERED = 60

log = logging.getLogger("pdwatch")


async def judge(live: Live, clock: Clock, store: Store | None = None) -> None:
    """Evaluates once per scrape interval, half of one after the first scrapes. What fires gets its evidence.

    What newly fires is saved in `store` before anybody is told: a kill right after would forget that it fired, and
    the page would be ended and sent again.
    """
    due = clock.steady() + live.config.scrape.interval_seconds / 2
    noted = float("-inf")
    while True:
        due = max(due + live.config.scrape.interval_seconds, clock.steady())
        await clock.sleep_until(due)
        live.evaluate()
        alerts = live.watch.incidents.alerts
        evidence = live.evidence
        is_new = _is_new(live)
        if is_new and store is not None:
            await _save_first(live, store)
        if evidence is None:
            live.alerts = alerts
            continue
        if is_new or clock.steady() >= noted + EVIDENCE_EVERY_SECONDS:
            noted = clock.steady()
            state = live.plain_state()
            evidence.note(state)
            try:
                await evidence.follow(alerts, state)
            except OSError as error:
                live.defects.note("evidence", error)
        live.alerts = evidence.annotated(alerts)


async def _save_first(live: Live, store: Store) -> None:
    """Saves the verdicts; a disk that does not answer holds no page back."""
    try:
        async with asyncio.timeout(SAVE_FIRST_SECONDS):
            await asyncio.to_thread(store.save, list(live.watch.saved(False)), None)
    except (StateError, TimeoutError) as error:
        live.watch.save_again()
        live.defects.note("store", error)


async def look_closer(live: Live, clock: Clock, examiner: Examiner) -> None:
    """Looks into processes of this host: once when they have warmed up, once when they leak."""
    while True:
        await clock.sleep_until(clock.steady() + EXAMINE_EVERY_SECONDS)
        now = clock.wall()
        for growth in list(live.watch.memory.growths(now)):
            life = Life(growth.sample.pid, growth.sample.started_seconds)
            if growth.reading.trend == "leaking":
                sentence = await examiner.leaks(life, growth.sample.title, now)
                live.watch.memory.looked_into(*life, sentence)
            elif growth.reading.trend != "warming":
                await examiner.warmed_up(life, now)


def _is_new(live: Live) -> bool:
    """Something fires that was not told of at the last evaluation."""
    told = {alert.identity for alert in live.alerts}
    return any(alert.identity not in told for alert in live.watch.incidents.alerts)


async def log_events(live: Live, clock: Clock) -> None:
    """Writes what begins and what ends into the log, for those who watch by the log alone."""
    changes, event_log = Changes(), EventLog()
    while True:
        await clock.sleep_until(clock.steady() + EVENTS_EVERY_SECONDS)
        event_log.write(changes.take(live.plain_state()))


async def remember(live: Live, clock: Clock) -> None:
    """Notes the state for the history of the last day, off the event loop: a disk may take its time."""
    while True:
        await clock.sleep_until(clock.steady() + HISTORY_EVERY_SECONDS)
        if live.history is not None:
            try:
                await asyncio.to_thread(live.history.note, live.plain_state())
            except StateError as error:  # all was noted, in memory
                live.defects.note("history", error)


async def keep(live: Live, store: Store, clock: Clock) -> None:
    """Saves what must survive a restart: verdicts and alerts often, the large histories every few minutes."""
    whole_due = clock.steady() + SAVE_WHOLE_EVERY_SECONDS
    while True:
        await clock.sleep_until(clock.steady() + SAVE_EVERY_SECONDS)
        whole = clock.steady() >= whole_due
        if whole:
            whole_due = clock.steady() + SAVE_WHOLE_EVERY_SECONDS
        documents = list(live.watch.saved(whole))
        try:
            await asyncio.to_thread(store.save, documents, live.watch.obsolete if whole else None)
        except StateError:
            live.watch.save_again()
            raise


def take_up(live: Live, store: Store) -> None:
    """Goes on where the last pdwatch left off; what cannot be read is said, and that history begins anew."""
    documents = store.load()
    if store.put_aside is not None:
        damaged = StateError(f"the saved history was damaged and is put aside as {store.put_aside}; it begins anew")
        live.defects.note("store", damaged)
    try:
        live.watch.restore(documents)
    except StateError as error:
        live.defects.note("store", error)
    else:
        if documents:
            log.info("history taken up again: %d documents from %s", len(documents), store.path)


def keep_whole(live: Live, store: Store) -> None:
    """The last save, on the way out."""
    try:
        store.save(list(live.watch.saved()), live.watch.obsolete)
    except StateError as error:
        log.warning("%s", error)
    finally:
        store.close()


class LoopLag:
    """How late the event loop wakes a sleeper: the one measure of whether this process keeps up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lags: deque[float] = deque(maxlen=LAG_REMEMBERED)

    def longest(self) -> float | None:
        """The longest delay in the last minute, seconds; None before the first look."""
        return max(self._lags, default=None)

    async def run(self) -> None:
        """Looks once a second until cancelled."""
        while True:
            due = self._clock.steady() + LAG_EVERY_SECONDS
            await self._clock.sleep_until(due)
            self._lags.append(max(0.0, self._clock.steady() - due))
