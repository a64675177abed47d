"""Bundles over HTTP, read-only. In: requests below /evidence/. Out: the list of bundles, and their files."""

from __future__ import annotations

import asyncio
from html import escape

from aiohttp import web

from agent.outputs.evidence.shelf import FILES, Shelf

_TYPES = {".md": "text/markdown; charset=utf-8", ".json": "application/json", ".gz": "application/gzip"}


def add_evidence_routes(app: web.Application, shelf: Shelf) -> None:
    """Adds the pages to the application."""

    async def index(_: web.Request) -> web.Response:
        names = await asyncio.to_thread(shelf.names)
        rows = "".join(
            f"<li>{escape(name)}: "
            + ", ".join(f'<a href="{escape(name)}/{file}">{file}</a>' for file in FILES)
            + "</li>"
            for name in reversed(names)
        )
        title = "Evidence of what fired, newest first"
        page = (
            f"<!doctype html><html lang=en><title>{title}</title><h1>{title}</h1><ul>{rows or 'None yet.'}</ul></html>"
        )
        return web.Response(text=page, content_type="text/html")

    async def file(request: web.Request) -> web.StreamResponse:
        path = shelf.file(request.match_info["bundle"], request.match_info["file"])
        if path is None:
            raise web.HTTPNotFound
        return web.FileResponse(path, headers={"Content-Type": _TYPES[path.suffix]})

    app.router.add_get("/evidence/", index)
    app.router.add_get("/evidence/{bundle}/{file}", file)
