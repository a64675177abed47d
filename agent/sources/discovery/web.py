"""http_sd: a list over HTTP. In: an address, how it is entered. Out: one `Listing` for each request."""

from __future__ import annotations

import asyncio

import aiohttp

from agent.config import Access, HttpSd
from agent.sources.discovery.documents import MOST_JSON_BYTES, read_json
from agent.sources.discovery.found import DiscoveryError, Listing, shown
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import FetchError, fetch_page

TIMEOUT_SECONDS = 10.0


class WebList:
    """Asks one address."""

    def __init__(self, config: HttpSd, session: aiohttp.ClientSession) -> None:
        self._url = config.url
        self._session = session
        self._keeper = AccessKeeper(Access(config.auth, config.tls))

    async def look(self) -> Listing:
        """What the address lists now. Raises DiscoveryError."""
        where = shown(self._url.partition("?")[0])
        try:
            page = await fetch_page(self._session, self._url, self._keeper, TIMEOUT_SECONDS, MOST_JSON_BYTES)
        except FetchError as error:
            raise DiscoveryError(error.word, f"{where}: {error.word}: {error.text}") from None
        return await asyncio.to_thread(read_json, page.text.encode("utf-8", "replace"), where)
