"""Pushes every metric of pdwatch over OTLP. In: samples once per interval. Out: exports, and how many came through.

The event loop only hands a finished batch to a thread of its own and never waits for it. At most one batch is on its
way; while it is, the next ones are left out and counted, so that a collector that is down costs nothing but its data.
The SDK keeps to its own timeout only roughly (an answer that drips in, a clock that is set), so the deadline is kept
here: a thread past it is given up with its exporter, and a new one takes the next batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

from agent.config import Config, Otlp
from agent.outputs.live import Live
from agent.outputs.otlp_data import Batch, metrics_data, resource_of
from agent.outputs.otlp_exporters import plan
from agent.sources.clock import Clock

GRACE_SECONDS = 2.0
"""What an exporter may take past its own timeout before it counts as stuck."""
MOST_STUCK = 3
"""Threads that are waited for in vain at once; then nothing is sent until one of them comes back."""
LOG_EVERY_SECONDS = 300.0

Send = Callable[[Batch], str | None]
"""Sends a batch; returns what went wrong, None for nothing."""

log = logging.getLogger("pdwatch.otlp")


class OtlpExport:
    """Sends `batch()` once per interval. `opened` makes what sends, and a way to end it at once.

    `counts`: exports by result: `ok`, `failed`, and `skipped` while the one before was still on its way.
    """

    def __init__(
        self,
        batch: Callable[[], Batch],
        opened: Callable[[], tuple[Send, Callable[[], None]]],
        clock: Clock,
        interval_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self.counts: dict[str, int] = {"ok": 0, "failed": 0, "skipped": 0}
        self._batch = batch
        self._opened = opened
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._deadline_seconds = timeout_seconds + GRACE_SECONDS
        self._timeout_seconds = timeout_seconds
        self._worker: _Worker | None = None
        self._stuck: list[_Worker] = []
        self._failing = 0
        self._logged: float | None = None

    async def run(self) -> None:
        """Sends until cancelled; then everything is let go at once, whatever the collector does."""
        due = self._clock.steady()
        try:
            while True:
                due = max(due + self._interval_seconds, self._clock.steady())
                await self._clock.sleep_until(due)
                self.tick()
        finally:
            self.close()

    def tick(self) -> None:
        """One interval has passed: note what became of the last batch, hand over the next. Never waits."""
        now = self._clock.steady()
        self._collect(now)
        worker = self._worker
        if worker is not None and worker.busy_since is not None:
            if now - worker.busy_since <= self._deadline_seconds:
                self.counts["skipped"] += 1
                return
            self._give_up(worker, now)
        self._stuck = [stuck for stuck in self._stuck if stuck.alive]
        if len(self._stuck) >= MOST_STUCK:
            self.counts["skipped"] += 1
            return
        if self._worker is None or not self._worker.alive:
            self._worker = _Worker(self._opened)
        self._worker.take(self._batch(), now)

    def close(self) -> None:
        """Lets go of every thread without waiting for any."""
        for worker in [*self._stuck, *([self._worker] if self._worker else [])]:
            worker.end()
        self._worker, self._stuck = None, []

    def _collect(self, now: float) -> None:
        outcome = self._worker.outcome() if self._worker is not None else None
        if outcome is None:
            return
        if outcome.fault is None:
            self.counts["ok"] += 1
            if self._failing:
                log.info("metrics reach the collector again; %d exports were lost", self._failing)
            self._failing, self._logged = 0, None
        else:
            self._failed(outcome.fault, now)

    def _give_up(self, worker: _Worker, now: float) -> None:
        worker.end()
        self._stuck.append(worker)
        self._worker = None
        self._failed(f"no end within {self._deadline_seconds:g} s", now)

    def _failed(self, fault: str, now: float) -> None:
        self.counts["failed"] += 1
        self._failing += 1
        if self._logged is None or now - self._logged >= LOG_EVERY_SECONDS:
            self._logged = now
            log.warning("metrics do not reach the collector (%d exports lost so far): %s", self._failing, fault)


class _Outcome:
    """How an export ended; `fault` None: well."""

    def __init__(self, fault: str | None) -> None:
        self.fault = fault


class _Worker:
    """One thread with one exporter, sending one batch at a time. Everything but `_work` is called by the loop."""

    def __init__(self, opened: Callable[[], tuple[Send, Callable[[], None]]]) -> None:
        self.busy_since: float | None = None
        self._opened = opened
        self._given = threading.Semaphore(0)
        self._batch: Batch | None = None
        self._done: _Outcome | None = None
        self._ended = False
        self._shut: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def take(self, batch: Batch, now: float) -> None:
        """Begins to send."""
        self.busy_since = now
        self._batch = batch
        self._given.release()

    def outcome(self) -> _Outcome | None:
        """How the last batch ended, once; None while it is on its way."""
        done = self._done
        if done is None and self.busy_since is not None and not self.alive:
            done = _Outcome("the sending thread died")
        if done is not None:
            self._done, self.busy_since = None, None
        return done

    def end(self) -> None:
        """Wakes the thread for the last time; what it is stuck in is told to stop by another thread."""
        self._ended = True
        self._given.release()
        if self._shut is not None and self.busy_since is not None and self._done is None:
            threading.Thread(target=self._shut_exporter, name="otlp-end", daemon=True).start()

    def _work(self) -> None:
        send: Send | None = None
        while True:
            self._given.acquire()
            batch, self._batch = self._batch, None
            if self._ended or batch is None:
                break
            try:
                if send is None:
                    send, self._shut = self._opened()
                fault = send(batch)
            except Exception as error:  # noqa: BLE001 - an export that breaks is one that failed, whatever broke it
                fault = f"{type(error).__name__}: {error}"
            del batch
            if self._ended:
                break
            self._done = _Outcome(fault)
        self._shut_exporter()

    def _shut_exporter(self) -> None:
        shut, self._shut = self._shut, None
        if shut is not None:
            with suppress(Exception):
                shut()


def otlp_export(config: Config, live: Live, clock: Clock, environ: Mapping[str, str]) -> OtlpExport:
    """The export that a configuration and the environment ask for. Raises ConfigError."""
    settings = config.otlp or Otlp()
    how = plan(settings, environ)
    resource = resource_of(settings, config.deployment, environ)

    def batch() -> Batch:
        return Batch(live.samples(), clock.wall(), live.own().started)

    def data(taken: Batch) -> MetricsData:
        return metrics_data(taken, resource, config.deployment, settings.gen_ai)

    def opened() -> tuple[Send, Callable[[], None]]:
        exporter: MetricExporter = how.make()

        def send(taken: Batch) -> str | None:
            how.last_words.forget()
            result = exporter.export(data(taken), timeout_millis=how.timeout_seconds * 1e3)
            if result is MetricExportResult.SUCCESS:
                return None
            return how.last_words.text or "the exporter gives no reason"

        return send, exporter.shutdown

    return OtlpExport(batch, opened, clock, how.interval_seconds, how.timeout_seconds)
