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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agent.config import Config
from agent.errors import ConfigError, RecordingError, StateError
from agent.model import Observation
from agent.sources.clock import Clock, SystemClock
from agent.sources.recordings import RecordingWriter

if TYPE_CHECKING:
    from agent.outputs.live import Live
    from agent.store import Store

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


def run(config: Config, listen: str | None = None, load: Callable[[], Config] | None = None) -> int:
    """Watches until a signal. `load` reads the configuration again on SIGHUP or a request. Raises ConfigError."""
    return run_until_signal(lambda stop: watch_world(config, stop, listen=listen, load=load, on_start=_begun))


def run_until_signal(work: Callable[[Stop], Awaitable[None]]) -> int:
    """Does `work` in an event loop of its own; a signal tells it to stop, and decides the exit code."""
    return asyncio.run(_until_signal(work))


def _begun(live: Live) -> None:
    """What start-up made stays for good: the garbage collector need not look at it again. SIGHUP reloads from here."""
    gc.collect()
    gc.freeze()
    reloads: set[asyncio.Future[Any]] = set()

    def reload() -> None:
        if live.reload is None:
            log.warning("SIGHUP: there is no configuration file to read again")
            return
        task = asyncio.ensure_future(live.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def record(config: Config, path: Path, seconds: float | None = None, listen: str | None = None) -> int:
    """Writes what the targets show into `path`, for `seconds` or until a signal; spans too if they are configured, or
    `listen` says where they come in. Raises RecordingError.
    """
    return run_until_signal(lambda stop: record_world(config, path, stop, seconds, listen=listen))


async def _until_signal(work: Callable[[Stop], Awaitable[None]]) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.want, INTERRUPTED)
    loop.add_signal_handler(signal.SIGTERM, stop.want, 0)
    await work(stop)
    return stop.exit_code


async def watch_world(
    config: Config,
    stop: Stop,
    *,
    listen: str | None = None,
    out: TextIO | None = None,
    clock: Clock | None = None,
    on_start: Callable[[Live], None] | None = None,
    before: Callable[[Live], Awaitable[None]] | None = None,
    beside: Mapping[str, Part] | None = None,
    load: Callable[[], Config] | None = None,
) -> None:
    """Serves and watches until `stop` is wanted. The address goes to `out` (stdout) once it can be opened.

    `before`: done before anything is scraped or served: a past that is told first, say.
    `beside`: more parts by name, kept going like pdwatch's own. `load`: reads the configuration again, for a reload.
    """
    from agent.duties import LoopLag, judge, keep, keep_whole, log_events, look_closer, remember, take_up
    from agent.outputs.delivery.run import Deliveries
    from agent.outputs.discovered import Discovered
    from agent.outputs.evidence.evidence import Evidence
    from agent.outputs.history import FILE_NAME, History
    from agent.outputs.live import Live
    from agent.outputs.web import start_server
    from agent.reload import Reloader
    from agent.sources.examination import Examiner
    from agent.sources.live_sources import LiveSources
    from agent.sources.traces import TraceReceiver
    from agent.sources.traces_listeners import certificates, grpc_listening
    from agent.watch import Watch

    clock = clock or SystemClock()
    live = Live(Watch(config), clock.wall, clock.steady)
    if config.state_dir is not None:
        live.evidence = Evidence(config, Path(config.state_dir))
    kept_in = Path(config.state_dir) / FILE_NAME if config.state_dir is not None else None
    live.history = history = await asyncio.to_thread(History, kept_in)
    if before is not None:
        await before(live)
    traces = TraceReceiver(config, live.observe, clock)
    live.spans = traces.counts
    live.forwarded = traces.forwarder.counts if traces.forwarder is not None else None
    tls = certificates(config)
    runner = await start_server(live, listen or config.listen, traces.routes(), tls)
    lag = LoopLag(clock)
    store = _store_of(config)
    live.loop_lag = lag.longest
    parts: dict[str, Part] = {
        "loop": lag.run,
        "verdicts": lambda: judge(live, clock, store),
        "log": lambda: log_events(live, clock),
        "history": lambda: remember(live, clock),
    }

    def retarget(now: Config) -> None:
        traces.names.retarget(now)
        live.retarget(now)

    sources = LiveSources(config, live.observe, clock, retarget, emit_local=live.observe_local, own=True)
    live.skipped_scrapes = lambda: sources.skipped_scrapes
    live.discovered = Discovered(sources.discovery)
    live.more_problems.append(live.discovered.problems)
    parts.update(sources.parts)
    parts["traces"] = traces.run
    examiner = Examiner(config.memory, Path(config.state_dir) / "examined" if config.state_dir else None)
    if examiner.wanted:
        parts["examination"] = lambda: look_closer(live, clock, examiner)
    if config.otlp is not None or os.environ.get("OTEL_METRICS_EXPORTER"):
        from agent.outputs.otlp import otlp_export
        from agent.outputs.otlp_exporters import wanted

        if wanted(config.otlp, os.environ):
            export = otlp_export(config, live, clock, os.environ)
            live.exports = lambda: export.counts
            parts["otlp"] = export.run
    deliveries = Deliveries(
        config, clock, lambda: live.alerts, live.defects.note, lambda figures: setattr(live, "delivery", figures)
    )
    parts["delivery"] = deliveries.run
    if load is not None:

        def apply(wanted: Config) -> None:
            traces.names.retarget(wanted)  # refuses what cannot be before anything is changed
            sources.reconfigure(wanted)
            deliveries.reconfigure(wanted)

        reloader = Reloader(config, load, apply, clock.wall)
        live.reload, live.reloads = reloader.reload, reloader.figures
        live.more_problems.append(reloader.problems)
    parts.update(beside or {})
    if store is not None:
        take_up(live, store)
        parts["store"] = lambda: keep(live, store, clock)
    async with grpc_listening(traces, config, tls):
        out = out or sys.stdout
        out.write(f"pdwatch is at {live.listening}\n")
        out.flush()
        if on_start is not None:
            on_start(live)
        tasks: list[asyncio.Task[None]] = []
        try:
            tasks += (
                asyncio.create_task(_kept_going(name, part, live, clock), name=name) for name, part in parts.items()
            )
            await stop.wanted.wait()
        finally:
            await _end(tasks)
            await runner.cleanup()
            history.close()
            if store is not None:
                keep_whole(live, store)


def _store_of(config: Config) -> Store | None:
    """Where history survives a restart. Raises ConfigError where the directory cannot be used."""
    from agent.store import Store

    if config.state_dir is None:
        return None
    try:
        return Store(Path(config.state_dir))
    except StateError as error:
        raise ConfigError(str(error)) from error


async def record_world(
    config: Config,
    path: Path,
    stop: Stop,
    seconds: float | None = None,
    clock: Clock | None = None,
    listen: str | None = None,
) -> None:
    """Records until `stop` is wanted or `seconds` are over. Raises RecordingError when the file cannot be written."""
    from agent.sources.live_sources import LiveSources
    from agent.sources.traces_listeners import taking_spans

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

        async with taking_spans(config, emit, clock, listen) as spans_at:
            parts = LiveSources(config, emit, clock).parts
            tasks = [asyncio.ensure_future(part()) for part in parts.values()]
            if seconds is not None:
                tasks.append(asyncio.ensure_future(_stop_after(seconds, stop, clock)))
            log.info("recording %d targets into %s", sum(len(pool.targets) for pool in config.pools), path)
            if spans_at:
                log.info("recording spans sent to %s", " and ".join(spans_at))
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
