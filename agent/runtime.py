"""The only place that wires things together. In: a configuration. Out: a running pdwatch, or a recording; an exit code.

Sources bring observations into the one event loop, the watch takes them, the server shows them. Nothing that a source
brings ends the process, and a part that fails is noted and started again.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agent.config import Config, Contract, config_from_names
from agent.errors import ConfigError, RecordingError, StateError
from agent.model import ClockStepObservation, Observation
from agent.sources.clock import Clock, SystemClock
from agent.sources.recordings import RecordingWriter, play, read_recording

if TYPE_CHECKING:
    from agent.outputs.live import Live
    from agent.store import Store

SHIPPED_RECORDING = Path(__file__).with_name("data") / "real-fleet.jsonl.gz"
SHIPPED_NAMES_WITHIN = 50
"""Lines of the shipped recording within which every one of its targets is named."""
NO_CONFIGURATION = """\
It plays a recording of a real fleet as if live. To watch yours: pdwatch run --prefill URL --decode URL, or -c FILE
"""
AGAIN_AFTER_SECONDS = 5.0
INTERRUPTED = 130

Emit = Callable[[Observation], None]
Part = Callable[[], Awaitable[None]]
log = logging.getLogger("pdwatch")


class Stop:
    """A wish to end, and the exit code that goes with it; the first wish decides."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.exit_code = 0

    def want(self, exit_code: int) -> None:
        """Ends with this code, unless another was wanted before."""
        if not self.wanted.is_set():
            self.exit_code = exit_code
            self.wanted.set()


def run(config: Config | None, listen: str | None = None) -> int:
    """Watches until a signal. `config` None: the shipped recording, played as if live. Raises ConfigError."""
    return asyncio.run(_until_signal(lambda stop: watch_world(config, stop, listen=listen, on_start=_settle)))


def _settle(_: Live) -> None:
    """What start-up made stays for good: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


def record(config: Config, path: Path, seconds: float | None = None) -> int:
    """Writes what the targets show into `path`, for `seconds` or until a signal. Raises RecordingError."""
    return asyncio.run(_until_signal(lambda stop: record_world(config, path, stop, seconds)))


async def _until_signal(work: Callable[[Stop], Awaitable[None]]) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.want, INTERRUPTED)
    loop.add_signal_handler(signal.SIGTERM, stop.want, 0)
    await work(stop)
    return stop.exit_code


async def watch_world(
    config: Config | None,
    stop: Stop,
    *,
    listen: str | None = None,
    out: TextIO | None = None,
    clock: Clock | None = None,
    on_start: Callable[[Live], None] | None = None,
) -> None:
    """Serves and watches until `stop` is wanted. The address goes to `out` (stdout) once it can be opened."""
    from agent.duties import LoopLag, judge, keep, keep_whole, log_events, take_up
    from agent.outputs.delivery.run import deliver
    from agent.outputs.evidence.evidence import Evidence
    from agent.outputs.live import Live
    from agent.outputs.web import start_server
    from agent.sources.traces import TraceReceiver
    from agent.watch import Watch

    clock = clock or SystemClock()
    watched = config or shipped_config()
    live = Live(Watch(watched), clock.wall, clock.steady)
    if config is not None and config.state_dir is not None:
        live.evidence = Evidence(config, Path(config.state_dir))
    traces = TraceReceiver(watched, live.observe, clock)
    runner = await start_server(live, listen or watched.listen, traces.routes())
    lag = LoopLag(clock)
    store = _store_of(config)
    live.loop_lag = lag.longest
    parts: dict[str, Part] = {
        "loop": lag.run,
        "verdicts": lambda: judge(live, clock),
        "log": lambda: log_events(live, clock),
    }
    if config is None:
        live.note = (
            "This is a recording of a real fleet, played as if live: pdwatch was started without a configuration."
        )
        parts["recording"] = lambda: _play(live.observe, clock)
    else:
        parts.update(_sources(watched, live.observe, clock, live))
        parts["traces"] = traces.run
        if watched.otlp is not None or os.environ.get("OTEL_METRICS_EXPORTER"):
            from agent.outputs.otlp import otlp_export
            from agent.outputs.otlp_exporters import wanted

            if wanted(watched.otlp, os.environ):
                export = otlp_export(watched, live, clock, os.environ)
                live.exports = lambda: export.counts
                parts["otlp"] = export.run
        parts["delivery"] = lambda: deliver(
            watched, clock, lambda: live.alerts, live.defects.note, lambda figures: setattr(live, "delivery", figures)
        )
    if store is not None:
        take_up(live, store)
        parts["store"] = lambda: keep(live, store, clock)
    out = out or sys.stdout
    out.write(f"pdwatch is at {live.listening}\n" + ("" if config else NO_CONFIGURATION))
    out.flush()
    if on_start is not None:
        on_start(live)
    tasks = [asyncio.create_task(_kept_going(name, part, live, clock), name=name) for name, part in parts.items()]
    try:
        await stop.wanted.wait()
    finally:
        await _end(tasks)
        await runner.cleanup()
        if store is not None:
            keep_whole(live, store)


def _store_of(config: Config | None) -> Store | None:
    """Where history survives a restart. Raises ConfigError where the directory cannot be used."""
    from agent.store import Store

    if config is None or config.state_dir is None:
        return None
    try:
        return Store(Path(config.state_dir))
    except StateError as error:
        raise ConfigError(str(error)) from error


async def record_world(
    config: Config, path: Path, stop: Stop, seconds: float | None = None, clock: Clock | None = None
) -> None:
    """Records until `stop` is wanted or `seconds` are over. Raises RecordingError when the file cannot be written."""
    clock = clock or SystemClock()
    failed: list[RecordingError] = []
    counts = {"observations": 0, "failures": 0}
    with RecordingWriter(path) as writer:

        def emit(observation: Observation) -> None:
            try:
                writer.write(observation)
            except RecordingError as error:
                failed.append(error)
                stop.want(0)
            else:
                counts["observations"] += 1

        parts = _sources(config, emit, clock)
        tasks = [asyncio.ensure_future(part()) for part in parts.values()]
        if seconds is not None:
            tasks.append(asyncio.ensure_future(_stop_after(seconds, stop, clock)))
        log.info("recording %d targets into %s", sum(len(pool.targets) for pool in config.pools), path)
        try:
            await _first_of(stop, tasks)
        finally:
            await _end(tasks)
    if failed:
        raise failed[0]
    log.info("wrote %d observations, %d bytes", counts["observations"], writer.bytes_written)


async def _first_of(stop: Stop, tasks: Sequence[asyncio.Future[None]]) -> None:
    """Waits for the wish to stop; a part that breaks before ends the recording with its error."""
    wanted = asyncio.ensure_future(stop.wanted.wait())
    pending: set[asyncio.Future[object]] = {wanted, *tasks}  # type: ignore[arg-type]
    while not wanted.done():
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _stop_after(seconds: float, stop: Stop, clock: Clock) -> None:
    await clock.sleep_until(clock.steady() + seconds)
    stop.want(0)


def _sources(config: Config, emit: Emit, clock: Clock, live: Live | None = None) -> dict[str, Part]:
    """The live world of a configuration: pages over HTTP, and processes where they are on this host."""
    from agent.sources.http import PageSource
    from agent.sources.local_processes import ProcessSource

    pages = PageSource(config, emit, clock)
    if live is not None:
        live.skipped_scrapes = lambda: sum(work.skipped for work in pages.work.values())
    return {"pages": pages.run, "processes": ProcessSource(config, emit, clock).run}


async def _kept_going(name: str, part: Part, live: Live, clock: Clock) -> None:
    """Runs one part; what breaks it is noted, and it begins again."""
    while True:
        try:
            await part()
            return
        except Exception as error:  # noqa: BLE001 - noted, logged and shown; the other parts go on meanwhile
            live.defects.note(name, error)
        await clock.sleep_until(clock.steady() + AGAIN_AFTER_SECONDS)


async def _end(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _play(emit: Emit, clock: Clock) -> None:
    async for observation in play(lambda: read_recording([SHIPPED_RECORDING]), clock=clock):
        emit(observation)


def shipped_config() -> Config:
    """Pools of the shipped recording, by the names in it."""
    begin = islice(read_recording([SHIPPED_RECORDING]), SHIPPED_NAMES_WITHIN)
    named = config_from_names({line.target for line in begin if not isinstance(line, ClockStepObservation)})
    # The recorded requests are short, and shown they shall be judged.
    return replace(named, contract=Contract(prompt_tokens=(1, 262144)))
