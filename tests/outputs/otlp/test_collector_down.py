"""A collector that is down costs only its data: it refuses, never answers, answers far too late, comes back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from agent.config import Otlp
from agent.outputs.otlp import LOG_EVERY_SECONDS, MOST_STUCK, OtlpExport, Send
from agent.outputs.otlp_data import Batch, metrics_data, resource_of
from agent.outputs.otlp_exporters import plan
from agent.outputs.sample import Sample
from tests.outputs import fleet
from tests.outputs.otlp.collector import closed, silent

INTERVAL, TIMEOUT = 15.0, 10.0


class HandClock:
    """Time that a test moves on; sleepers wait for ever."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall(self) -> float:
        return 1_800_000_000.0 + self.now

    def steady(self) -> float:
        return self.now

    async def sleep_until(self, steady: float) -> None:
        if steady > self.now:
            await asyncio.Event().wait()


class Given(list[Sample]):
    """A list that can be watched for being let go."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Behaviour:
    """A collector behind a fake exporter: `answer` decides about each batch; `shut` counts ends."""

    def __init__(self, answer: Callable[[], str | None]) -> None:
        self.answer = answer
        self.sent = 0
        self.shut = 0
        self.given: weakref.WeakSet[Given] = weakref.WeakSet()
        self.clock = HandClock()
        self.export = OtlpExport(self.batch, self.opened, self.clock, INTERVAL, TIMEOUT)

    def batch(self) -> Batch:
        given = Given()
        self.given.add(given)
        return Batch(given, self.clock.wall(), 0.0)

    def opened(self) -> tuple[Send, Callable[[], None]]:
        def send(_: Batch) -> str | None:
            self.sent += 1
            return self.answer()

        def shut() -> None:
            self.shut += 1

        return send, shut

    def tick(self, settled: bool = True) -> None:
        """One interval passes; `settled`: wait until the export has ended."""
        self.clock.now += INTERVAL
        before = self.sent
        self.export.tick()
        if settled:
            until(
                lambda: self.sent > before and self.export._worker is not None and self.export._worker._done is not None
            )


def has_been_asked(behaviour: Behaviour, times: int) -> bool:
    return behaviour.sent == times


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; it is a matter of microseconds, so a second of it is a failure."""
    end = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < end, "the other thread did not get there"
        threading.Event().wait(0.001)


def test_what_goes_well_is_counted_an_interval_later():
    well = Behaviour(lambda: None)
    well.tick()
    well.tick()
    assert well.export.counts == {"ok": 1, "failed": 0, "skipped": 0}
    well.export.close()
    until(lambda: well.shut == 1)


def test_a_failure_is_one_line_and_its_repetition_none(caplog: pytest.LogCaptureFixture):
    answers: list[str | None] = ["refused"]
    down = Behaviour(lambda: answers[0])
    with caplog.at_level(logging.INFO, "pdwatch.otlp"):
        for _ in range(40):  # ten minutes
            down.tick()
        assert down.export.counts["failed"] == 39
        assert len(caplog.records) == 1 + int(39 * INTERVAL // LOG_EVERY_SECONDS)
        answers[0] = None
        down.tick()  # it is back: the very next export comes through
        down.tick()
        assert down.export.counts == {"ok": 1, "failed": 40, "skipped": 0}
        assert caplog.records[-1].getMessage() == "metrics reach the collector again; 40 exports were lost"
    down.export.close()


def test_an_exporter_that_breaks_is_a_failed_export_and_no_more():
    def broken() -> str | None:
        raise ValueError("no such thing")

    down = Behaviour(broken)
    down.tick()
    down.tick()
    assert down.export.counts["failed"] == 1
    assert down.export._worker is not None
    assert down.export._worker.alive
    down.export.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced():
    def dying() -> str | None:
        raise SystemExit

    down = Behaviour(dying)
    down.tick(settled=False)
    until(lambda: down.export._worker is not None and not down.export._worker.alive)
    down.answer = lambda: None
    down.tick()
    down.tick()
    assert down.export.counts == {"ok": 1, "failed": 1, "skipped": 0}
    down.export.close()


def test_while_nothing_is_answered_at_most_a_few_batches_are_held_and_none_waits():
    gate = threading.Event()
    hanging = Behaviour(lambda: None if gate.wait(300.0) else "late")
    for interval in range(50):
        hanging.tick(settled=False)
        if interval < MOST_STUCK:
            until(partial(has_been_asked, hanging, interval + 1))
        assert len(hanging.given) <= MOST_STUCK
    counts = hanging.export.counts
    assert counts["ok"] == 0
    assert counts["failed"] == MOST_STUCK
    assert counts["skipped"] == 50 - MOST_STUCK
    gate.set()
    hanging.export.close()


def test_an_answer_after_forty_seconds_does_not_count_and_the_next_export_comes_through():
    gates = [threading.Event(), threading.Event()]
    waiting = iter(gates)

    def answer() -> str | None:
        gate = next(waiting, None)
        if gate is not None:
            gate.wait(300.0)
        return None

    late = Behaviour(answer)
    late.tick(settled=False)  # asked at 15 s
    until(lambda: late.sent == 1)
    late.tick(settled=False)  # 30 s: past its deadline, given up; the next hangs as well
    until(lambda: late.sent == 2)
    assert late.export.counts["failed"] == 1
    for gate in gates:
        gate.set()  # at 55 s, forty seconds after it was asked, everything answers
    late.clock.now += 10.0
    until(lambda: late.export._worker is not None and late.export._worker._done is not None)
    late.tick()
    late.tick()
    assert late.export.counts == {"ok": 2, "failed": 1, "skipped": 0}
    late.export.close()


def test_a_busy_export_within_its_deadline_only_skips():
    gate = threading.Event()
    slow = Behaviour(lambda: None if gate.wait(300.0) else "late")
    slow.tick(settled=False)
    slow.clock.now += 11.0
    slow.export.tick()
    assert slow.export.counts == {"ok": 0, "failed": 0, "skipped": 1}
    gate.set()
    slow.export.close()


def over_http(url: str, timeout: float) -> OtlpExport:
    """The real exporter against a real port."""
    how = plan(Otlp(endpoint=url, timeout_seconds=timeout), {})
    taken = fleet.live().samples()
    resource = resource_of(Otlp(), None, {})

    def opened() -> tuple[Send, Callable[[], None]]:
        exporter = how.make()

        def send(batch: Batch) -> str | None:
            result = exporter.export(metrics_data(batch, resource))
            return None if result.name == "SUCCESS" else how.last_words.text

        return send, exporter.shutdown

    return OtlpExport(lambda: Batch(taken, 1.0, 0.0), opened, HandClock(), INTERVAL, timeout)


def test_a_port_that_refuses_is_a_counted_failure_and_a_line(caplog: pytest.LogCaptureFixture):
    export = over_http(closed(), 0.2)
    export.tick()
    until(lambda: export._worker is not None and export._worker._done is not None)
    with caplog.at_level(logging.WARNING, "pdwatch.otlp"):
        export.tick()
    assert export.counts["failed"] == 1
    assert "metrics do not reach the collector (1 exports lost so far): Failed to export" in caplog.text
    export.close()


def test_a_port_that_never_answers_costs_the_loop_nothing_and_stopping_is_immediate():
    with silent() as url:
        export = over_http(url, 0.3)
        began = time.monotonic()
        export.tick()
        ticked = time.monotonic()
        export.close()
        assert ticked - began < 1.0
        assert time.monotonic() - ticked < 1.0
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("otlp"))


async def test_cancelling_ends_it_at_once_whatever_the_collector_does():
    gate = threading.Event()
    hanging = Behaviour(lambda: None if gate.wait(300.0) else "late")
    running = asyncio.ensure_future(hanging.export.run())
    await asyncio.sleep(0)
    hanging.tick(settled=False)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5.0)
    assert hanging.export._worker is None
    gate.set()
