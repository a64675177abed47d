"""The files beside the page: styles, script, icons. In: a name. Out: an address that changes with the content; bytes.

An address holds a hash of the content, so that a browser may keep the file for good and still never has an old one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("static")
_COLOURS = {"good": "#1a7f37", "bad": "#c62828", "warn": "#8a5a00", "unknown": "#5c6773", "none": "#5c6773"}
_SIGNS = {
    "good": "M9 17l5 5 9-11",
    "bad": "M10 10l12 12M22 10L10 22",
    "warn": "M16 8v10M16 23v1",
    "unknown": "M12 12c0-6 9-6 9 0 0 3-5 4-5 7M16 23v1",
    "none": "M9 16h14",
}


class Asset(NamedTuple):
    """A file as it is served."""

    body: bytes
    content_type: str


def _icon(tone: str) -> bytes:
    """The browser tab's icon: colour and sign."""
    shape = f'<rect width="32" height="32" rx="7" fill="{_COLOURS[tone]}"/>'
    sign = f'<path d="{_SIGNS[tone]}" fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{shape}{sign}</svg>'.encode()


ASSETS: Mapping[str, Asset] = MappingProxyType(
    {
        "page.css": Asset((_FOLDER / "page.css").read_bytes(), "text/css"),
        "page.js": Asset((_FOLDER / "page.js").read_bytes(), "text/javascript"),
        **{f"icon-{tone}.svg": Asset(_icon(tone), "image/svg+xml") for tone in _SIGNS},
    }
)
_VERSIONS = {name: hashlib.sha256(asset.body).hexdigest()[:12] for name, asset in ASSETS.items()}


def asset(name: str) -> str:
    """The address of a file, from the page."""
    return f"static/{name}?v={_VERSIONS[name]}"
