"""Where spans may arrive, beside the routes of pdwatch's own server. In: a receiver. Out: listeners that were started.

gRPC is an extra and is imported only when an address for it is configured. `record` has no pages to show, and so gets a
server that answers `/v1/traces` alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web

from agent.config import Config, Traces, listen_address
from agent.errors import ConfigError
from agent.sources.clock import Clock
from agent.sources.listener_tls import ListenerCertificates
from agent.sources.traces import PATH, Emit, TraceReceiver

SHUTDOWN_SECONDS = 1.0


def certificates(config: Config) -> ListenerCertificates | None:
    """Of every listener; None: none speaks TLS. Raises ConfigError."""
    return ListenerCertificates(config.tls) if config.tls is not None else None


@asynccontextmanager
async def grpc_listening(
    receiver: TraceReceiver, config: Config, tls: ListenerCertificates | None
) -> AsyncIterator[str | None]:
    """Takes spans over gRPC while it is open, at the address that is given; None where none is configured.

    Raises ConfigError where the address cannot be had, or the extra is not installed.
    """
    listen = config.traces.grpc_listen
    if listen is None:
        yield None
        return
    try:
        from agent.sources.traces_grpc import GrpcTraces
    except ImportError:
        raise ConfigError("traces.grpc_listen: gRPC is not installed; install pdwatch[grpc]") from None
    server = GrpcTraces(receiver, listen, tls)
    await server.start()
    try:
        yield server.listening
    finally:
        await server.stop()


@asynccontextmanager
async def http_listening(receiver: TraceReceiver, listen: str, tls: ListenerCertificates | None) -> AsyncIterator[str]:
    """Takes spans over HTTP while it is open, and answers nothing else; gives the URL. Raises ConfigError."""
    host, port = listen_address(listen)
    app = web.Application()
    app.add_routes(receiver.routes())
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS, auto_decompress=False
    )
    await runner.setup()
    try:
        context = tls.server_context() if tls is not None else None
        try:
            await web.TCPSite(runner, host or None, port, ssl_context=context).start()
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"listen: {listen} cannot be had for spans; name another with --listen ({why})") from None
        yield f"{'http' if tls is None else 'https'}://{listen.rpartition(':')[0]}:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def taking_spans(
    config: Config, emit: Emit, clock: Clock, listen: str | None = None
) -> AsyncIterator[tuple[str, ...]]:
    """What `record` needs: listeners at `listen` or the configured address, as soon as either says that spans come.

    Gives the addresses; none where neither `listen` nor anything under `traces` is given. A collector behind gets
    nothing: what is recorded is on its way to the pdwatch that watches as well, or to nobody. Raises ConfigError.
    """
    if listen is None and config.traces == Traces():
        yield ()
        return
    receiver = TraceReceiver(replace(config, traces=replace(config.traces, forward=None)), emit, clock)
    tls = certificates(config)
    async with (
        http_listening(receiver, listen or config.listen, tls) as http,
        grpc_listening(receiver, config, tls) as grpc,
    ):
        yield (http, f"{grpc} (gRPC)") if grpc is not None else (http,)
