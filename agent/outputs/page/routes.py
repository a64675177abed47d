"""The page over HTTP. In: requests for `/` and the files beside it. Out: answers.

The state is taken on the event loop; history and markup are made beside it, since a disk may take its time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiohttp import web

from agent.outputs.live import Live
from agent.outputs.page.assets import ASSETS
from agent.outputs.page.page import page_html
from agent.outputs.page.view import RecentLines, view_of
from agent.state import State

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may load for our pages: from this server alone, and nothing that stands inside the page itself."""
_FOR_GOOD = "public, max-age=31536000, immutable"


def add_page_routes(app: web.Application, live: Live) -> None:
    """Adds the page and its files to the application."""
    lines: RecentLines | None = None
    made: tuple[State, asyncio.Future[str]] | None = None

    async def page(_: web.Request) -> web.Response:
        nonlocal lines, made
        view = view_of(live)
        if view.history is not None:
            if lines is None or lines.history is not view.history:
                lines = RecentLines(view.history)
            view = replace(view, history=lines)
        if made is None or made[0] is not view.state:
            # Who looks at the same state sees the same page: the markup of 300 targets costs a fifth of a second.
            made = view.state, asyncio.ensure_future(asyncio.to_thread(page_html, view))
        return web.Response(text=await asyncio.shield(made[1]), content_type="text/html", charset="utf-8")

    async def file(request: web.Request) -> web.Response:
        found = ASSETS.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        headers = {"Cache-Control": _FOR_GOOD} if "v" in request.query else None
        return web.Response(body=found.body, content_type=found.content_type, headers=headers)

    app.router.add_get("/", page)
    app.router.add_get("/static/{name}", file)
