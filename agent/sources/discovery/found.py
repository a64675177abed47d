"""One found target, and a list of them. In: an address and labels. Out: values that are equal when they mean the same.

An answer is taken whole or not at all: a list that is wrong in one place is not to be trusted in the others, and the
one before it is still the best there is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

NAME_LABEL = "pdwatch_target"
SIDECAR_LABEL = "pdwatch_sidecar_port"
SCHEME_LABEL = "__scheme__"
PATH_LABEL = "__metrics_path__"
MOST_NAME_CHARACTERS = 253
MOST_SHOWN_CHARACTERS = 80

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9.])?")


class DiscoveryError(Exception):
    """An answer that cannot be used: one short word for the count, a sentence for the reader."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(text)
        self.word = word
        self.text = text


@dataclass(frozen=True, slots=True)
class Found:
    """One target as a source names it; `address` is host:port. `scheme`, `path`, `sidecar` are "" where not said."""

    name: str
    address: str
    labels: tuple[tuple[str, str], ...] = ()
    scheme: str = ""
    path: str = ""
    sidecar: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One good answer. `notes`: what was left out of it and why, in sentences."""

    targets: tuple[Found, ...]
    notes: tuple[str, ...] = ()


def found(address: str, labels: Mapping[str, str], name: str = "") -> Found:
    """A target of an address and its labels, called `name`, or as its label `pdwatch_target` says, or by its address.

    Raises ValueError with a sentence that repeats nothing but the part that is wrong, and of that the beginning.
    """
    address = checked_address(address)
    scheme, path = labels.get(SCHEME_LABEL, ""), labels.get(PATH_LABEL, "")
    if scheme not in ("", "http", "https"):
        raise ValueError(f"{SCHEME_LABEL} {shown(scheme)} is neither http nor https")
    if path and (not path.startswith("/") or not path.isprintable() or any(c in " ?#" for c in path)):
        raise ValueError(f"{PATH_LABEL} {shown(path)} is not a path such as /metrics")
    sidecar = labels.get(SIDECAR_LABEL, "")
    if sidecar and not (sidecar.isdigit() and 0 < len(sidecar) <= 5 and 1 <= int(sidecar) <= 65535):
        raise ValueError(f"label {SIDECAR_LABEL} {shown(sidecar)} is not a port")
    name = name or labels.get(NAME_LABEL, "") or address
    if len(name) > MOST_NAME_CHARACTERS or not name.isprintable() or any(c.isspace() for c in name):
        raise ValueError(f"{shown(name)} cannot name a target: 1 to 253 printable characters without blanks")
    return Found(name, address, tuple(sorted(labels.items())), scheme, path, sidecar)


def checked_address(text: str) -> str:
    """`host:port`, IPv6 in brackets. Raises ValueError for anything else: URLs, paths, users, blanks, no port."""
    host, separator, port = text.rpartition(":")
    if "://" in text or "/" in text or "@" in text:
        raise ValueError(f"address {shown(text)} must be host:port alone, without scheme, user or path")
    if not separator or not port.isascii() or not port.isdigit() or len(port) > 5 or not 1 <= int(port) <= 65535:
        raise ValueError(f"address {shown(text)} has no port: write host:port, or [IPv6]:port")
    if host.startswith("[") and host.endswith("]"):
        try:
            return f"[{ipaddress.IPv6Address(host[1:-1])}]:{int(port)}"
        except ValueError:
            raise ValueError(f"address {shown(text)} has brackets around what is no IPv6 address") from None
    if not _HOST.fullmatch(host):
        raise ValueError(f"address {shown(text)} has no usable host")
    return f"{host.lower()}:{int(port)}"


def shown(text: str) -> str:
    """Foreign text in a sentence: its beginning, quoted, without what could move a cursor or be a secret."""
    bare = text.rpartition("@")[2] if "@" in text else text
    return ascii(bare[:MOST_SHOWN_CHARACTERS])
