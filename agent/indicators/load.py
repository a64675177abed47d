"""Load: gauges of the latest pages come in, who runs and who waits goes out.

Gauges are those of fresh pages only; a value that no page gives is None. KV use is never averaged away: the fullest
engine stands beside the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.state import KvFetch, Load
from agent.windows.increase import Increase

Gauges = Mapping[tuple[str, str], Sequence[float]]
"""(metric, label) -> the values of all engines asked about."""


def load(gauges: Gauges, increase: Increase) -> Load:
    """Sums over engines, in requests; KV use as share of the cache."""
    usage = gauges.get(("kv_usage", ""), ())
    preemptions = increase.count("preemptions")
    return Load(
        running=_sum(gauges.get(("running", ""))),
        waiting=_sum(gauges.get(("waiting", ""))),
        waiting_capacity=_sum(gauges.get(("waiting_by_reason", "capacity"))),
        waiting_deferred=_sum(gauges.get(("waiting_by_reason", "deferred"))),
        kv_fetch=KvFetch(
            waiting_to_start=_sum(gauges.get(("kv_fetch", "waiting_to_start"))),
            in_progress=_sum(gauges.get(("kv_fetch", "in_progress"))),
            completed_waiting=_sum(gauges.get(("kv_fetch", "completed_waiting"))),
        ),
        kv_usage_max=max(usage) if usage else None,
        kv_usage_mean=sum(usage) / len(usage) if usage else None,
        preemptions=None if preemptions is None else round(preemptions),
    )


def _sum(values: Iterable[float] | None) -> float | None:
    values = list(values or ())
    return sum(values) if values else None
