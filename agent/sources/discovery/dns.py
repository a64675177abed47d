"""DNS: targets behind names. In: names, what to ask for. Out: one `Listing` for each question.

Addresses come from the system's own resolver; service records need a library, the extra `dns`. A name that does not
exist is a failure and never an empty list: a resolver that is being restarted says the same of every name.
"""

from __future__ import annotations

import socket

from agent.config import Dns
from agent.sources.discovery.found import DiscoveryError, Found, Listing, found
from agent.sources.http_names import NameResolver

TIMEOUT_SECONDS = 5.0
MOST_RECORDS = 1_000

_FAMILIES = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}


class DnsLists:
    """Asks for all names of one configuration. `resolver` and `services`: a test's, in place of the system's."""

    def __init__(self, config: Dns, resolver: NameResolver | None = None) -> None:
        self._config = config
        self._resolver = resolver or NameResolver()

    async def look(self) -> Listing:
        """What the names lead to now. Raises DiscoveryError as soon as one of them fails."""
        targets: dict[str, Found] = {}
        for name in self._config.names:
            addresses = await (self._services(name) if self._config.type == "SRV" else self._addresses(name))
            if not addresses:
                raise DiscoveryError("dns", f"{name}: no {self._config.type} records")
            if len(addresses) > MOST_RECORDS:
                raise DiscoveryError("too_many", f"{name}: more than {MOST_RECORDS} records")
            for address in addresses:
                try:
                    target = found(address, {"dns_name": name})
                except ValueError as error:
                    raise DiscoveryError("unusable", f"{name}: {error}") from None
                targets.setdefault(target.name, target)
        return Listing(tuple(sorted(targets.values(), key=lambda target: target.name)))

    async def _addresses(self, name: str) -> list[str]:
        try:
            results = await self._resolver.resolve(name, self._config.port or 0, _FAMILIES[self._config.type])
        except OSError as error:
            raise DiscoveryError("dns", f"{name}: {error.strerror or error}") from None
        hosts = sorted({result["host"] for result in results})
        return [f"[{host}]:{self._config.port}" if ":" in host else f"{host}:{self._config.port}" for host in hosts]

    async def _services(self, name: str) -> list[str]:
        try:
            records = await service_records(name)
        except ImportError:
            text = f"{name}: SRV records need the extra dns: pip install 'pdwatch[dns]'"
            raise DiscoveryError("not_installed", text) from None
        except OSError as error:
            raise DiscoveryError("dns", f"{name}: {error}") from None
        return sorted(f"{host.rstrip('.')}:{self._config.port or port}" for host, port in records if host != ".")


async def service_records(name: str) -> list[tuple[str, int]]:
    """(host, port) of every SRV record. Raises OSError where there is no answer, ImportError without the library."""
    import dns.asyncresolver
    import dns.exception

    try:
        answer = await dns.asyncresolver.resolve(name, "SRV", lifetime=TIMEOUT_SECONDS)
    except dns.exception.DNSException as error:
        raise OSError(str(error)[:200] or type(error).__name__) from None
    return [(record.target.to_text(), record.port) for record in answer]
