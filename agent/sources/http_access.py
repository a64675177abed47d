"""How a group of targets is entered: the headers and the TLS context of its requests.

In: the configured access of a pool. Out: header values and an `ssl` context. Secrets and certificates in files are
looked at before every request and read again when they change, so that a rotated token needs no restart.
"""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path

from agent.config import Access

MAX_SECRET_BYTES = 1 << 16

FileState = tuple[int, int, int]


class AccessUnusable(Exception):
    """A secret or certificate that cannot be read or used; the message names the file and never its content."""


class AccessKeeper:
    """Keeps headers and TLS context of one pool up to date with its files."""

    def __init__(self, access: Access) -> None:
        self._auth = access.auth
        self._tls = access.tls
        auth_files = (access.auth.bearer_token_file, access.auth.password_file)
        tls_files = (access.tls.ca_file, access.tls.cert_file, access.tls.key_file)
        self._auth_files = tuple(name for name in auth_files if name)
        self._tls_files = tuple(name for name in tls_files if name)
        self._auth_seen: tuple[FileState, ...] | None = None
        self._tls_seen: tuple[FileState, ...] | None = None
        self._authorization: str | None = None
        self._context: ssl.SSLContext | None = None

    def authorization(self) -> str | None:
        """The value of the Authorization header, None for none. Raises AccessUnusable."""
        seen = file_states(self._auth_files)
        if seen != self._auth_seen:
            self._authorization = self._read_authorization()
            self._auth_seen = seen
        return self._authorization

    def tls_context(self) -> ssl.SSLContext:
        """The context for https; the same object while its files are the same. Raises AccessUnusable."""
        seen = file_states(self._tls_files)
        if self._context is None or seen != self._tls_seen:
            self._context = self._make_context()
            self._tls_seen = seen
        return self._context

    def _read_authorization(self) -> str | None:
        auth = self._auth
        if auth.username:
            password = auth.password or _read_secret(auth.password_file)
            pair = f"{auth.username}:{password}".encode()
            return "Basic " + base64.b64encode(pair).decode("ascii")
        token = auth.bearer_token or (_read_secret(auth.bearer_token_file) if auth.bearer_token_file else None)
        return f"Bearer {token}" if token else None

    def _make_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._tls.ca_file)
            if self._tls.cert_file:
                # A key with a passphrase must fail here: asking for it on a terminal would hang the process.
                context.load_cert_chain(self._tls.cert_file, self._tls.key_file, password=no_passphrase)
        except (OSError, ValueError) as error:
            files = ", ".join(self._tls_files) or "the system's authorities"
            raise AccessUnusable(f"{files}: cannot be used for TLS: {error}") from error
        if self._tls.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def file_states(names: tuple[str, ...]) -> tuple[FileState, ...]:
    """What tells that a file was replaced or rewritten: inode, size, time of its last change. Raises AccessUnusable."""
    try:
        stats = [os.stat(name) for name in names]  # noqa: PTH116 - before every request: one call, not an object
    except OSError as error:
        raise AccessUnusable(f"{error.filename}: cannot be read: {error.strerror}") from error
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


def _read_secret(name: str | None) -> str:
    try:
        with Path(str(name)).open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        secret = data.decode("utf-8").strip()
    except OSError as error:
        raise AccessUnusable(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise AccessUnusable(f"{name}: is not text (UTF-8)") from None
    if not secret or len(data) > MAX_SECRET_BYTES or not secret.isprintable():
        raise AccessUnusable(f"{name}: must hold one line, the secret and nothing else")
    return secret


def no_passphrase() -> str:
    """In place of asking for one on a terminal, which would hang the process. Raises ValueError."""
    raise ValueError("the key is protected by a passphrase; give one without")
