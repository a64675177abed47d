"""`POST /-/reload`. In: a request. Out: what changed and what needs a restart, or the one line that is wrong.

Only a program or pdwatch's own page may ask: a request that a browser sends for another site is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

PATH = "/-/reload"


@dataclass(frozen=True, slots=True)
class ReloadAnswer:
    """`error`: "" when the file is in force. `changed`, `needs_restart`: key paths; the latter are not in force yet."""

    error: str = ""
    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


Reload = Callable[[], Awaitable[ReloadAnswer]]


def add_reload_route(app: web.Application, reload: Callable[[], Reload | None]) -> None:
    """Adds the address; `reload` returns None where there is nothing to read again."""

    async def answer(request: web.Request) -> web.Response:
        if is_cross_site(request):
            return _refused(403, "a reload cannot be asked for by a page of another site")
        work = reload()
        if work is None:
            return _refused(400, "there is no configuration file to read again: pdwatch was started without one")
        said = await work()
        if said.error:
            return _refused(400, said.error)
        return web.json_response({"changed": said.changed, "needs_restart": said.needs_restart})

    app.router.add_post(PATH, answer)


def is_cross_site(request: web.Request) -> bool:
    """Whether a browser says that another site's page made this request. Programs send neither header."""
    fetch_site = request.headers.get("Sec-Fetch-Site", "").lower()
    if fetch_site not in ("", "same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != request.host.lower()


def _refused(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)
