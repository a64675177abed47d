"""The lists of file_sd and http_sd. In: bytes as they came. Out: a `Listing`, or a `DiscoveryError` that says where.

    [{"targets": ["10.0.0.9:8000"], "labels": {"role": "decode", "pdwatch_target": "decode-0"}}]

Bounded in bytes, depth and number, and strict: half a file, a wrong type or one bad address refuses the whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from agent.config.document import parse_inline
from agent.config.node import Node
from agent.errors import ConfigError
from agent.sources.discovery.found import NAME_LABEL, DiscoveryError, Found, Listing, found, shown

MOST_JSON_BYTES = 4 << 20
MOST_YAML_BYTES = 256 << 10
"""YAML is read by a slow parser; 256 KiB hold some thousand targets."""
MOST_TARGETS = 5_000
"""Of one source, for all pools together."""
MOST_LABELS = 100


def read_json(data: bytes, where: str) -> Listing:
    """Raises DiscoveryError (too_large, not_text, not_json, unusable)."""
    text = _text(data, where, MOST_JSON_BYTES)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DiscoveryError("not_json", f"{where}: not valid JSON: {said}"[:300]) from None
    return _listing(value, where)


def read_yaml(data: bytes, where: str) -> Listing:
    """Raises DiscoveryError (too_large, not_text, not_yaml, unusable)."""
    text = _text(data, where, MOST_YAML_BYTES)
    try:
        value = _plain(parse_inline(text, "", where))
    except ConfigError:
        raise DiscoveryError("not_yaml", f"{where}: not valid YAML, nested too deeply, or a key given twice") from None
    return _listing(value, where)


def _text(data: bytes, where: str, most_bytes: int) -> str:
    if len(data) > most_bytes:
        raise DiscoveryError("too_large", f"{where}: larger than {most_bytes} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DiscoveryError("not_text", f"{where}: not text (UTF-8)") from None


def _plain(node: Node) -> object:
    """The values below a node; every scalar is text."""
    if isinstance(node.value, dict):
        return {name: _plain(child) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(child) for child in node.value]
    return node.value


def _listing(value: object, where: str) -> Listing:
    if not isinstance(value, list):
        raise DiscoveryError("unusable", f"{where}: is no list of groups; an empty list is written []")
    targets: dict[str, Found] = {}
    for index, group in enumerate(value):
        place = f"{where}: group {index}"
        addresses, labels = _group(group, place)
        if NAME_LABEL in labels and len(addresses) > 1:
            raise DiscoveryError("unusable", f"{place}: label {NAME_LABEL!r} names one target, and here are several")
        for address in addresses:
            try:
                target = found(address, labels)
            except ValueError as error:
                raise DiscoveryError("unusable", f"{place}: {error}") from None
            if targets.setdefault(target.name, target) != target:
                said = f"two different targets are called {shown(target.name)}"
                raise DiscoveryError("unusable", f"{place}: {said}; labels {NAME_LABEL!r} give each its own name")
        if len(targets) > MOST_TARGETS:
            raise DiscoveryError("too_many", f"{where}: more than {MOST_TARGETS} targets")
    return Listing(tuple(sorted(targets.values(), key=lambda target: target.name)))


def _group(group: object, place: str) -> tuple[list[str], Mapping[str, str]]:
    if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
        raise DiscoveryError("unusable", f"{place}: must have a list 'targets'")
    addresses, labels = group["targets"], group.get("labels")
    if labels is None:
        labels = {}
    if not all(isinstance(address, str) for address in addresses):
        raise DiscoveryError("unusable", f"{place}: 'targets' must hold texts host:port")
    if not isinstance(labels, dict) or not all(isinstance(text, str) for text in labels.values()):
        raise DiscoveryError("unusable", f"{place}: 'labels' must be a mapping of names to texts")
    if len(labels) > MOST_LABELS:
        raise DiscoveryError("unusable", f"{place}: more than {MOST_LABELS} labels")
    return addresses, labels
