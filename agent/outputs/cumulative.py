"""What only grows while pdwatch runs: a pool's total increase comes in, samples of counters and histograms go out.

These can be added up over many pdwatch and over time, which values of a window cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import floor

from agent.catalogue import CATALOGUE, HISTOGRAMS, LATENCIES, PREFIX, RECOVERED
from agent.indicators.outcomes import HTTP_CLASSES, REASONS
from agent.indicators.percentiles.recovered import FineHistogram
from agent.indicators.requests import Exemplar
from agent.outputs.sample import Buckets, Sample, known
from agent.state import PoolState
from agent.windows.increase import HistogramIncrease, Increase

_COUNTERS = {
    "prompt_tokens_total": ("prompt_tokens", ""),
    "generation_tokens_total": ("generation_tokens", ""),
    "preemptions_total": ("preemptions", ""),
    "drafts_total": ("spec_drafts", ""),
    "draft_tokens_total": ("spec_draft_tokens", ""),
    "accepted_tokens_total": ("spec_accepted_tokens", ""),
    "kv_failed_transfers_total": ("kv_failed_transfers", ""),
    "kv_failed_notifications_total": ("kv_failed_notifications", ""),
    "kv_expired_total": ("kv_expired", ""),
    "kv_after_expiry_total": ("kv_after_expiry", ""),
}
_LABELLED = {
    "requests_finished_total": ("requests_finished", REASONS),
    "http_responses_total": ("http_requests", HTTP_CLASSES),
    "accepted_tokens_by_position_total": ("spec_accepted_by_position", ()),
}
EXEMPLIFIED = ("ttft", "tpot")
_LOGICAL_HISTOGRAM = {"kv_transfer": "kv_transfer_time"}


Asked = Callable[[str, str, tuple[float, ...]], tuple[Exemplar | None, ...]]
"""(pool, latency, edges) -> a request for each bucket."""


def cumulative(name: str, pool: PoolState, total: Increase, exemplars: Asked | None = None) -> Iterator[Sample]:
    """Counters that a page of the pool has begin at 0; those that none has are left out.

    `exemplars`: where to ask for a request in each bucket of TTFT and TPOT.
    """
    at = (name,)
    present = {metric for target in pool.targets.values() for metric in target.metric_names}
    for counter, (metric, label) in _COUNTERS.items():
        yield from known(counter, at, total.counters.get((metric, label), 0.0 if metric in present else None))
    for counter, (metric, usual) in _LABELLED.items():
        counted = dict.fromkeys(usual, 0.0) if metric in present else {}
        for label, count in {**counted, **total.labels(metric)}.items():
            yield from known(counter, (name, label), count)
    rejected = total.labels("admission_rejections")
    if rejected or "admission_rejections" in present:
        yield from known("admission_rejected_total", at, sum(rejected.values()))
    if pool.role == "decode" and "prompt_tokens_by_source" in present:
        recomputed = total.count("prompt_tokens_by_source", "local_compute") or 0.0
        yield from known("recomputed_tokens_total", at, recomputed)
    for latency in HISTOGRAMS:
        if latency in pool.latency and pool.latency[latency].status == "not_applicable":
            continue
        gained = total.histograms.get(_LOGICAL_HISTOGRAM.get(latency, latency))
        if gained is not None:
            metric_of = CATALOGUE[f"{PREFIX}{LATENCIES[latency][0]}_seconds"]
            histogram = _buckets(gained)
            if exemplars is not None and latency in EXEMPLIFIED:
                histogram = histogram._replace(exemplars=exemplars(name, latency, histogram.edges))
            yield Sample(metric_of, at, histogram)
    transfers, sizes = total.histograms.get("kv_transfer_time"), total.histograms.get("kv_bytes")
    if "kv_transfer_time" in present:
        yield from known("kv_transfers_total", at, transfers.count if transfers is not None else 0.0)
    if "kv_bytes" in present and (sizes is None or not sizes.unsummed):
        yield from known("kv_transferred_bytes_total", at, sizes.total if sizes is not None else 0.0)


def recovered(histograms: Iterable[tuple[str, str, FineHistogram]]) -> Iterator[Sample]:
    """The recovered distributions, (pool, metric, histogram), as histograms that only grow."""
    latency_of = {metric: latency for latency in RECOVERED for metric in [_LOGICAL_HISTOGRAM.get(latency, latency)]}
    for pool, metric, fine in histograms:
        metric_of = CATALOGUE[f"{PREFIX}recovered_{LATENCIES[latency_of[metric]][0]}_seconds"]
        total = None if fine.unsummed else fine.total
        yield Sample(metric_of, (pool,), Buckets(fine.edges, _whole(fine.counts), total))


def _whole(expected: Sequence[float]) -> tuple[float, ...]:
    """Expected counts as whole ones: every cumulative count rounded down, which keeps growing if they do."""
    below = [float(floor(count + 1e-6)) for count in accumulate(expected)]
    return tuple(later - earlier for earlier, later in zip([0.0, *below], below, strict=False))


def _buckets(gained: HistogramIncrease) -> Buckets:
    """A sum that lacks some of the counted observations would give wrong means: it is left out."""
    return Buckets(gained.edges, tuple(gained.counts), None if gained.unsummed else gained.total)
