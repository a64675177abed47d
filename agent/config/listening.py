"""Where pdwatch itself can be reached, and behind which certificate. In: nodes. Out: addresses, a frozen value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.config.fields import PATH, REQUIRED, Kind, setting
from agent.config.node import Node

DEFAULT_LISTEN = "127.0.0.1:9838"

_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]*):([0-9]{1,5})")


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[::1]:port` or `:port` (every address: host is then empty). Raises ValueError."""
    match = _LISTEN.fullmatch(text.strip())
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"{text!r} is not host:port, such as {DEFAULT_LISTEN}")
    return match[1].strip("[]"), int(match[2])


def _read_listen(node: Node) -> str:
    try:
        listen_address(node.scalar())
    except ValueError as error:
        raise node.error(str(error)) from None
    return node.scalar().strip()


LISTEN = Kind("host:port", _read_listen)


@dataclass(frozen=True, slots=True)
class ListenTls:
    """TLS of pdwatch's own listeners. With `client_ca_file` only clients with a certificate from there get in."""

    cert_file: str = setting("cert_file", PATH, REQUIRED, "pdwatch's certificate and its chain (PEM)")
    key_file: str = setting("key_file", PATH, REQUIRED, "Key of this certificate (PEM), without a passphrase")
    client_ca_file: str | None = setting(
        "client_ca_file", PATH, None, "Authorities (PEM), one of which must have signed every client's certificate"
    )
