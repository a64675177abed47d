"""Names of hosts to addresses. In: a host. Out: its addresses, asked of the system anew for every new connection.

The system's resolver can hang for half a minute and cannot be interrupted. In a shared pool of threads a few such names
would hold up every other lookup, and the end of the process too. So each lookup has a thread of its own that nobody
waits for, and a name that is being looked up is not asked a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

from aiohttp.abc import AbstractResolver, ResolveResult

Name = tuple[str, int, socket.AddressFamily]
Lookup = asyncio.Future[list[ResolveResult]]


class NameResolver(AbstractResolver):
    """Looks names up by the system's own rules (hosts file, search domains), without a cache."""

    def __init__(self) -> None:
        self._lookups: dict[Name, Lookup] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host. Raises OSError when there are none. Giving up waiting leaves the lookup running."""
        name = (host, port, family)
        lookup = self._lookups.get(name)
        if lookup is None:
            loop = asyncio.get_running_loop()
            lookup = self._lookups[name] = loop.create_future()
            lookup.add_done_callback(lambda done: self._forget(name, done))
            threading.Thread(target=_look_up, args=(name, lookup, loop), name=f"resolve {host}", daemon=True).start()
        return await asyncio.shield(lookup)

    async def close(self) -> None:
        """Nothing to close: a lookup that still runs ends with its thread."""

    def _forget(self, name: Name, lookup: Lookup) -> None:
        del self._lookups[name]
        if not lookup.cancelled():
            lookup.exception()  # taken note of, also when nobody waits any more


def _look_up(name: Name, lookup: Lookup, loop: asyncio.AbstractEventLoop) -> None:
    """In the thread: ask, and hand the answer to the loop, unless that has ended meanwhile."""
    host, port, family = name
    addresses: list[ResolveResult] = []
    failure: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        for its_family, _, protocol, _, address in found:
            flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            addresses.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=int(address[1]),
                    family=its_family,
                    proto=protocol,
                    flags=flags,
                )
            )
    except OSError as error:
        failure = error
    except UnicodeError:
        failure = socket.gaierror(socket.EAI_NONAME, "not a valid host name")

    def hand_over() -> None:
        if lookup.done():
            return
        if failure is not None:
            lookup.set_exception(failure)
        else:
            lookup.set_result(addresses)

    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(hand_over)
