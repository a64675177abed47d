"""Bucket edges against targets. In: an objective and the edges its histogram has. Out: the edges beside its target.

Edges come from the pages; where there are none (`--offline`) the defaults stand in that vLLM has had in every version.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType

METRIC_OF: Mapping[str, str] = MappingProxyType(
    {
        "ttft": "ttft",
        "tpot": "tpot",
        "itl": "itl",
        "queue": "queue",
        "prefill": "prefill",
        "decode": "decode",
        "e2e": "e2e",
        "kv_transfer": "kv_transfer_time",
    }
)
"""Indicator -> the logical metric whose histogram it is read from. Indicators that are quotients have none."""

_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
_NIXL = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)

DEFAULT_EDGES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "ttft": _TTFT,
        "tpot": _PER_TOKEN,
        "itl": _PER_TOKEN,
        "queue": _REQUEST,
        "prefill": _REQUEST,
        "decode": _REQUEST,
        "e2e": _REQUEST,
        "kv_transfer_time": _NIXL,
    }
)
"""Logical metric -> vLLM's own edges in seconds, the same from 0.9.2 to 0.32."""


def is_edge(edges: Sequence[float], value: float) -> bool:
    """Whether a bucket ends at `value`: then how many observations are within it is known exactly."""
    return any(math.isclose(edge, value, rel_tol=1e-9) for edge in edges)


def neighbours(edges: Sequence[float], value: float) -> tuple[float, float | None]:
    """The edges below and above `value`, in its unit; 0 below the first, None above the last."""
    at = bisect_left(edges, value)
    return (edges[at - 1] if at else 0.0), (edges[at] if at < len(edges) else None)
