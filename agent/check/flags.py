"""The flags of vLLM that would help. In: what is missing, a version. Out: a flag to paste, and whether it is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

CUSTOM_BUCKETS = "--custom-histogram-buckets"
CUSTOM_BUCKETS_SINCE = "0.32.0"
"""Present in 0.32, absent in 0.29; what lies between was not looked at."""

ONE_API_SERVER = "--api-server-count 1"

BUCKET_FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "ttft": "time_to_first_token",
        "tpot": "inter_token_latency",
        "itl": "inter_token_latency",
        "queue": "request_latency",
        "prefill": "request_latency",
        "decode": "request_latency",
        "e2e": "request_latency",
        "prompt_tokens": "request_tokens",
    }
)
"""Logical metric -> the family that the flag replaces as a whole. The edges of KV transfers are fixed."""


def version_numbers(version: str | None) -> tuple[int, ...] | None:
    """`0.32.0`, `v0.20.1rc2+cu129` -> the numbers before anything else; None where there are none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version or "")
    return tuple(map(int, match[1].split("."))) if match else None


def is_at_least(version: str | None, since: str) -> bool | None:
    """Whether `version` is `since` or newer; None when it is not known."""
    numbers, needed = version_numbers(version), version_numbers(since)
    return None if numbers is None or needed is None else numbers >= needed


def short(version: str) -> str:
    """A version as people say it: 0.32.0 is 0.32."""
    return version.removesuffix(".0") if version.count(".") > 1 else version


def custom_buckets(wanted: Mapping[str, tuple[Sequence[float], Iterable[float]]]) -> str:
    """The flag with its JSON. `wanted`: logical metric -> (edges it has, edges to add).

    Metrics of one family are joined, for the flag replaces a family as a whole. Metrics whose edges are fixed are left
    out; the result is "" when nothing is left.
    """
    families: dict[str, set[float]] = {}
    for metric, (edges, added) in wanted.items():
        if metric in BUCKET_FAMILIES:
            families.setdefault(BUCKET_FAMILIES[metric], set()).update(edges, added)
    if not families:
        return ""
    shown = {family: [_plain(edge) for edge in sorted(edges)] for family, edges in sorted(families.items())}
    return f"{CUSTOM_BUCKETS} '{json.dumps(shown, separators=(',', ':'))}'"


def _plain(edge: float) -> float | int:
    return int(edge) if edge == int(edge) else float(f"{edge:.12g}")
