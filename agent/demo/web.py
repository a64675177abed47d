"""The demo over HTTP. In: requests. Out: each server's metrics page at an address of its own; the fleet's own page.

Incidents are started and stopped by plain forms, which only this page itself may send: a POST must name its origin,
and that must be the address it was sent to.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from agent.demo.overview import overview_page
from agent.demo.world import CONTENT_TYPE, DemoWorld
from agent.errors import ConfigError

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # `no-referrer` would make browsers send the forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
MOST_FORM_BYTES = 4096
SHUTDOWN_SECONDS = 1.0


def bound(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError where the address cannot be taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(128)
    except (OSError, OverflowError, UnicodeError) as error:
        taken.close()
        if isinstance(error, OverflowError):
            why = "no such port"
        elif isinstance(error, UnicodeError):
            why = "no such host"
        else:
            why = "is taken by another process" if error.errno == errno.EADDRINUSE else f"{error.strerror or error}"
        raise ConfigError(
            f"demo: {host}:{port} for the fleet: {why}; name another with --fleet-listen HOST:PORT"
        ) from None
    return taken


def target_app(world: DemoWorld, target: str) -> web.Application:
    """One simulated server: its metrics page, as vLLM serves it."""

    async def metrics(_: web.Request) -> web.Response:
        page = world.page(target)
        if page is None:
            return web.Response(status=503, text=f"{target} is being restarted\n")
        return web.Response(body=page.encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


def overview_app(world: DemoWorld) -> web.Application:
    """The fleet's own page and its buttons."""

    async def overview(request: web.Request) -> web.Response:
        world.advance()
        return _html(overview_page(world, pdwatch=_seen_from(request, world.pdwatch_address)))

    async def switch(request: web.Request) -> web.Response:
        refusal = _foreign(request)
        if refusal:
            return web.Response(status=403, text=refusal + "\n", headers=HEADERS)
        try:
            form = await request.post()
        except (ValueError, LookupError, web.RequestPayloadError):
            return web.Response(status=400, text="the form cannot be read\n", headers=HEADERS)
        action, name = form.get("action", ""), form.get("incident", "")
        if not isinstance(action, str) or not isinstance(name, str):
            return web.Response(status=400, text="the form holds a file\n", headers=HEADERS)
        actions: dict[str, Callable[[str], None]] = {"start": world.incidents.start, "stop": world.incidents.stop}
        if action not in actions:
            return web.Response(status=400, text=f"action must be start or stop, not {action!r}\n", headers=HEADERS)
        world.advance()
        try:
            actions[action](name)
        except ConfigError as error:
            return web.Response(status=400, text=f"{error}\n", headers=HEADERS)
        return web.Response(status=303, headers={**HEADERS, "Location": f"/#{name}"})

    app = web.Application(client_max_size=MOST_FORM_BYTES)
    app.router.add_get("/", overview)
    app.router.add_post("/incidents", switch)
    return app


async def serve(app: web.Application, listening: socket.socket) -> Callable[[], Awaitable[None]]:
    """Serves on a socket that listens already; what is returned ends it."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return runner.cleanup


def _html(text: str) -> web.Response:
    return web.Response(body=text.encode(), content_type="text/html", charset="utf-8", headers=HEADERS)


def _foreign(request: web.Request) -> str:
    """Why a POST is refused; empty for one that comes from this page."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin", "")
    if site is not None and site != "same-origin":
        return f"refused: sent from another site (Sec-Fetch-Site: {site})"
    if origin.partition("://")[2].lower() != request.host.lower() or not origin:
        return f"refused: incidents are started from this page alone; a script sends 'Origin: http://{request.host}'"
    return ""


def _seen_from(request: web.Request, address: str) -> str:
    """Where this viewer finds pdwatch: listening on every interface, it is reached by the name the fleet was."""
    parts = urlsplit(address)
    host = re.sub(r":\d+$", "", request.host)
    return f"{parts.scheme}://{host}:{parts.port}/" if parts.hostname == "localhost" and host else address
