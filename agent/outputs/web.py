"""pdwatch's own HTTP server. In: requests. Out: the page, metrics, the state, the configuration, health answers.

`/-/healthy` says that the loop turns, `/-/ready` that every target has been asked once; neither says that targets are
up, since restarting pdwatch would not bring them up.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from agent.config import duration_seconds, listen_address, masked
from agent.config.objectives import MAX_WINDOW_SECONDS, MIN_WINDOW_SECONDS
from agent.errors import ConfigError
from agent.outputs.evidence.pages import add_evidence_routes
from agent.outputs.history.pages import add_history_route
from agent.outputs.live import Live
from agent.outputs.metrics import render
from agent.outputs.page import PAGE_POLICY, add_page_routes
from agent.outputs.processes_json import add_processes_route
from agent.outputs.refused_requests import server_logger
from agent.outputs.reload_route import add_reload_route
from agent.sources.listener_tls import ListenerCertificates
from agent.watch import DEFAULT_WINDOW_SECONDS

SHUTDOWN_SECONDS = 1.0
LIVE = web.AppKey("live", Live)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": PAGE_POLICY,
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(live: Live, routes: Sequence[web.RouteDef] = ()) -> web.Application:
    """The application, without a socket. `routes`: what sources take in (`/v1/traces`)."""
    app = web.Application(middlewares=[_answer_errors], client_max_size=1 << 16)
    app[LIVE] = live
    app.add_routes(routes)
    add_page_routes(app, live)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/api/v1/state", _state)
    add_history_route(app, live)
    add_processes_route(app, live.local_processes, lambda: live.config)
    add_reload_route(app, lambda: live.reload)
    app.router.add_get("/config", _config)
    app.router.add_get("/-/healthy", _healthy)
    app.router.add_get("/-/ready", _ready)
    if live.evidence is not None:
        add_evidence_routes(app, live.evidence.shelf)
    return app


async def start_server(
    live: Live, listen: str, routes: Sequence[web.RouteDef] = (), tls: ListenerCertificates | None = None
) -> web.AppRunner:
    """Begins to listen and writes the address that was taken into `live.listening`. Raises ConfigError."""
    try:
        host, port = listen_address(listen)
    except ValueError as error:
        raise ConfigError(f"listen: {error}") from None
    runner = web.AppRunner(
        make_app(live, routes),
        access_log=None,
        logger=server_logger(time.monotonic),
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_SECONDS,
        auto_decompress=False,  # a body goes on to a collector as it came, and is unpacked within limits
    )
    await runner.setup()
    try:
        context = tls.server_context() if tls is not None else None
        await web.TCPSite(runner, host or None, port, ssl_context=context).start()
    except OSError as error:
        await runner.cleanup()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"listen: {listen} is taken by another process; name another with --listen HOST:PORT"
            ) from None
        raise ConfigError(f"listen: {listen} cannot be listened on: {error.strerror or error}") from None
    live.listening = _address("http" if tls is None else "https", host, runner)
    return runner


def _address(scheme: str, host: str, runner: web.AppRunner) -> str:
    """The URL for people: the port that was really taken, and an address that a browser can open."""
    port = runner.addresses[0][1]
    shown = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    return f"{scheme}://[{shown}]:{port}/" if ":" in shown else f"{scheme}://{shown}:{port}/"


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Machines get errors as JSON; a defect is counted and answered with 500, and the server goes on."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        if not request.path.startswith("/api/"):
            raise
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        response = _json_error(error.status, error.reason, headers)
    except Exception as error:  # noqa: BLE001 - one request must not end the watch; it is counted and logged
        request.app[LIVE].defects.note("web", error)
        response = _json_error(500, "a defect of pdwatch; see its log")
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.update(_HEADERS)
    return response


def _json_error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": message}, status=status, headers=headers)


async def _metrics(request: web.Request) -> web.Response:
    live = request.app[LIVE]
    body, content_type = render(live.samples(), request.headers.get("Accept", ""), live.config.deployment)
    return web.Response(body=body, headers={"Content-Type": content_type})


async def _state(request: web.Request) -> web.Response:
    live = request.app[LIVE]
    unknown = sorted(set(request.query) - {"window"})
    if unknown:
        return _json_error(400, f"unknown parameter {unknown[0]!r}; the only one is window")
    window_seconds = DEFAULT_WINDOW_SECONDS
    if "window" in request.query:
        try:
            window_seconds = duration_seconds(request.query["window"])
        except ValueError as error:
            return _json_error(400, f"window: {error}")
        if not MIN_WINDOW_SECONDS <= window_seconds <= MAX_WINDOW_SECONDS:
            return _json_error(400, f"window: {request.query['window']!r} is not between 1m and 3d")
    return web.Response(text=live.text(window_seconds), content_type="application/json")


async def _config(request: web.Request) -> web.Response:
    text = json.dumps(masked(request.app[LIVE].config), indent=2)
    return web.Response(text=text + "\n", content_type="application/json")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="healthy\n")


async def _ready(request: web.Request) -> web.Response:
    if request.app[LIVE].ready:
        return web.Response(text="ready\n")
    return web.Response(text="not ready: not every target has been asked yet\n", status=503)
