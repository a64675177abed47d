"""KV transfer: a connector's families come in, times, bytes, rates and failures go out.

One observation of NIXL's is one completed handle (local rank x remote rank), not a request. In pull mode decode records
them, in push mode prefill; the pool that has them shows them. Failed handles are in no histogram. Other connectors are
in `connectors.py`; the state names the one that is shown.
"""

from __future__ import annotations

from agent.indicators.connectors import moved
from agent.indicators.distribution import distribution, untold, without_numbers
from agent.indicators.percentiles import Percentiles
from agent.model import Role
from agent.state import KvTransfer
from agent.windows.increase import Increase


def kv_transfer(
    increase: Increase, role: Role, covered_seconds: float, percentiles: Percentiles | None = None
) -> KvTransfer:
    """`covered_seconds`: real time of the window, for bytes_per_s; `percentiles`: of the transfer time."""
    recomputed = increase.count("prompt_tokens_by_source", "local_compute") if role == "decode" else None
    source, found = moved(increase) or (None, None)
    size = found.moved_bytes if found is not None else None
    seconds = found.transfer_seconds if found is not None else None
    missing = without_numbers("metric_missing") if increase.is_known else untold()
    time = found.time if found is not None else missing
    if source == "nixl" and percentiles is not None:
        time = distribution("kv_transfer_time", increase.histograms.get("kv_transfer_time"), percentiles)
    post_time = found.post_time if found is not None else None
    return KvTransfer(
        transfers=None if found is None or time.status == "metric_missing" else round(found.transfers),
        time=time,
        post_time=post_time or missing,
        bytes=_whole(size),
        bytes_per_s=size / covered_seconds if size is not None and covered_seconds > 0 else None,
        handle_bytes_per_s=size / seconds if size is not None and seconds else None,
        failed=_whole(found.failed if found is not None else None),
        failed_notifications=_whole(increase.count("kv_failed_notifications")),
        expired=_whole(increase.count("kv_expired")),
        after_expiry=_whole(increase.count("kv_after_expiry")),
        recomputed_tokens=_whole(recomputed),
        source=source,
        registered_growth_bytes=_whole(found.registered_growth_bytes if found is not None else None),
    )


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)
