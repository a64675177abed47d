"""TLS of pdwatch's own listeners. In: the configured files. Out: a context, or the files' bytes, always up to date.

The files are looked at when a client connects and read again when they changed, so that a rotated certificate needs no
restart. Files that cannot be used while pdwatch runs (a rotation that is half done) leave the last good ones in force
and are logged once; at the start they end it.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import NamedTuple

from agent.config import ListenTls
from agent.errors import ConfigError
from agent.sources.http_access import AccessUnusable, file_states, no_passphrase

log = logging.getLogger("pdwatch.tls")


class Certificates(NamedTuple):
    """What the files hold (PEM), and the context made of it. `client_ca` None: clients need no certificate."""

    key: bytes
    chain: bytes
    client_ca: bytes | None
    context: ssl.SSLContext


class ListenerCertificates:
    """Keeps to the files. Raises ConfigError where they cannot be used at the start."""

    def __init__(self, tls: ListenTls) -> None:
        self._tls = tls
        self._files = tuple(name for name in (tls.cert_file, tls.key_file, tls.client_ca_file) if name)
        self._fault: str | None = None
        try:
            self._seen = file_states(self._files)
            self._held = _read(tls)
        except AccessUnusable as error:
            raise ConfigError(f"tls: {error}") from None

    @property
    def needs_client(self) -> bool:
        """Whether clients have to show a certificate; this cannot change while pdwatch runs."""
        return self._tls.client_ca_file is not None

    def current(self) -> Certificates:
        """Those of the files as they are now, or the last that could be used. Never raises."""
        try:
            seen = file_states(self._files)
            if seen != self._seen:
                self._held = _read(self._tls)
                self._seen = seen
                log.info("the certificate was read again: %s", self._tls.cert_file)
            self._fault = None
        except AccessUnusable as error:
            if str(error) != self._fault:
                self._fault = str(error)
                log.warning("the certificate in use stays, since the new one cannot be used: %s", error)
        return self._held

    def server_context(self) -> ssl.SSLContext:
        """For a server of asyncio: each connection is served by the context of its moment."""
        context = _CurrentContext(ssl.PROTOCOL_TLS_SERVER)
        context.certificates = self
        return context


class _CurrentContext(ssl.SSLContext):
    """Stands in a server's place for whatever context is current; asyncio asks it once per connection."""

    certificates: ListenerCertificates

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """A connection with the certificates of now."""
        context = self.certificates.current().context
        return context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _read(tls: ListenTls) -> Certificates:
    # The bytes are for gRPC, which loads them by itself. A file that changes just now has another state than the one
    # that was seen, so everything is read again for the next connection.
    try:
        key, chain = Path(tls.key_file).read_bytes(), Path(tls.cert_file).read_bytes()
        client_ca = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file is not None else None
    except OSError as error:
        raise AccessUnusable(f"{error.filename}: cannot be read: {error.strerror}") from error
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tls.cert_file, tls.key_file, password=no_passphrase)
    except (OSError, ValueError) as error:
        raise AccessUnusable(f"{tls.cert_file}, {tls.key_file}: {_reason(error)}") from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (OSError, ValueError) as error:
            raise AccessUnusable(f"{tls.client_ca_file}: {_reason(error)}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return Certificates(key, chain, client_ca, context)


def _reason(error: Exception) -> str:
    word = error.reason if isinstance(error, ssl.SSLError) else None
    if word == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return f"cannot be used for TLS (PEM is needed): {word.lower().replace('_', ' ') if word else error}"
