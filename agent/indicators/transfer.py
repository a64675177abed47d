"""KV transfer: NIXL families come in, times, bytes, rates and failures go out.

One observation is one completed handle (local rank x remote rank), not a request. In pull mode decode records them,
in push mode prefill; the pool that has them shows them. Failed handles are in no histogram.
"""

from __future__ import annotations

from agent.indicators.distribution import distribution
from agent.model import Role
from agent.state import KvTransfer
from agent.windows.increase import Increase


def kv_transfer(increase: Increase, role: Role, covered_seconds: float) -> KvTransfer:
    """`covered_seconds`: real time of the window, for bytes_per_s."""
    times, sizes = increase.histograms.get("kv_transfer_time"), increase.histograms.get("kv_bytes")
    moved = sizes.total if sizes is not None and not sizes.unsummed else None
    seconds = times.total if times is not None and not times.unsummed else None
    recomputed = increase.count("prompt_tokens_by_source", "local_compute") if role == "decode" else None
    return KvTransfer(
        transfers=None if times is None else round(times.count),
        time=distribution("kv_transfer_time", times),
        post_time=distribution("kv_post_time", increase.histograms.get("kv_post_time")),
        bytes=None if moved is None else round(moved),
        bytes_per_s=moved / covered_seconds if moved is not None and covered_seconds > 0 else None,
        handle_bytes_per_s=moved / seconds if moved is not None and seconds else None,
        failed=_whole(increase.count("kv_failed_transfers")),
        failed_notifications=_whole(increase.count("kv_failed_notifications")),
        expired=_whole(increase.count("kv_expired")),
        after_expiry=_whole(increase.count("kv_after_expiry")),
        recomputed_tokens=_whole(recomputed),
    )


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)
