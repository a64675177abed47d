"""Windows written down and taken up again: what pdwatch must not forget when it is restarted itself.

Out: small documents by key, only of what changed since they were last asked for, so that saving every minute costs a
few slots and not three days. In: the same documents. A pool's slots and totals and each target's last page come
back: the first page after a restart is then differenced with the last one before it, and nothing in between is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.errors import StateError
from agent.model import HistogramValue, SeriesKey
from agent.windows.fleet import FleetWindows
from agent.windows.history import PoolHistory, Tier
from agent.windows.increase import GaugeIntegral, HistogramIncrease, Increase
from agent.windows.pages import Gone, RememberedPage

VERSION = 1
Document = dict[str, Any]


def saved(windows: FleetWindows) -> Iterator[tuple[str, Document]]:
    """(key, document) of everything that changed since the last call."""
    for name, history in windows.pools.items():
        if history.last_end is None:
            continue
        history.settle()
        yield (
            f"windows/pool/{name}",
            {
                "version": VERSION,
                "began": history.began,
                "last_end": history.last_end,
                "total": increase_document(history.settled_total),
            },
        )
        for tier_name, tier in (("fine", history.fine), ("coarse", history.coarse)):
            for slot in tier.take_changed():
                yield (
                    f"windows/slot/{name}/{tier_name}/{slot.start:.0f}",
                    {"version": VERSION, "start": slot.start, "increase": increase_document(slot.increase)},
                )
    for name, window in windows.targets.items():
        page = window.remembered()
        if page is not None:
            yield f"windows/page/{name}", _page_document(page)


def obsolete(windows: FleetWindows, key: str) -> bool:
    """True for the key of a slot that has left its ring, or of a pool or target that is no more."""
    parts = key.split("/")
    if parts[:2] == ["windows", "slot"] and len(parts) == 5:
        history = windows.pools.get(parts[2])
        if history is None or history.last_end is None:
            return True
        tier = history.fine if parts[3] == "fine" else history.coarse
        return float(parts[4]) < history.last_end - tier.reach_seconds - tier.width_seconds
    if parts[:2] == ["windows", "pool"]:
        return parts[2] not in windows.pools
    if parts[:2] == ["windows", "page"]:
        return parts[2] not in windows.targets
    return False


def restore(windows: FleetWindows, documents: Mapping[str, Document]) -> None:
    """Takes saved documents up again. Raises StateError at the first that is damaged or of another version."""
    try:
        for key, document in documents.items():
            if key.startswith("windows/"):
                if document["version"] != VERSION:
                    raise StateError(f"saved history {key} has version {document['version']}, not {VERSION}")
                _restore_one(windows, key.split("/"), document)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"saved history is damaged ({error!r}); remove it to begin anew") from error


def _restore_one(windows: FleetWindows, parts: list[str], document: Document) -> None:
    if parts[1] == "page":
        window = windows.targets.get(parts[2])
        if window is not None:
            window.remember(_page(document))
        return
    history = windows.pools.get(parts[2])
    if history is None:
        return
    if parts[1] == "pool":
        total = increase(document["total"])
        history.began, history.last_end, history.settled_total = document["began"], document["last_end"], total
    elif parts[1] == "slot":
        _restore_slot(history, parts[3], document)


def _restore_slot(history: PoolHistory, tier_name: str, document: Document) -> None:
    tier: Tier = history.fine if tier_name == "fine" else history.coarse
    gained = increase(document["increase"])
    start = float(document["start"])
    tier.slot(start).settled = gained
    # The pool's own document, which knows better, may be lost.
    history.began = start if history.began is None else min(start, history.began)
    history.last_end = start if history.last_end is None else max(start, history.last_end)


def increase_document(bag: Increase) -> Document:
    """An `Increase` as plain JSON values."""
    return {
        "counters": [[metric, label, value] for (metric, label), value in bag.counters.items()],
        "histograms": {
            metric: [list(h.edges), h.counts, h.total, h.unsummed, h.mixed] for metric, h in bag.histograms.items()
        },
        "gauges": [[metric, label, g.value_seconds, g.seconds] for (metric, label), g in bag.gauges.items()],
    }


def increase(document: Document) -> Increase:
    """The reverse of `increase_document`."""
    return Increase(
        {(metric, label): float(value) for metric, label, value in document["counters"]},
        {
            metric: HistogramIncrease(tuple(edges), [float(c) for c in counts], total, unsummed, mixed)
            for metric, (edges, counts, total, unsummed, mixed) in document["histograms"].items()
        },
        {(metric, label): GaugeIntegral(value, seconds) for metric, label, value, seconds in document["gauges"]},
    )


def _page_document(page: RememberedPage) -> Document:
    return {
        "version": VERSION,
        "t": page.t,
        "started": page.started_seconds,
        "engines": list(page.engines),
        "counters": _counter_rows(page.counters),
        "histograms": _histogram_rows(page.histograms),
        "gone_counters": _counter_rows(page.gone.counters),
        "gone_histograms": _histogram_rows(page.gone.histograms),
    }


def _counter_rows(counters: Mapping[SeriesKey, float]) -> list[list[Any]]:
    return [[*series, value] for series, value in counters.items()]


def _histogram_rows(histograms: Mapping[tuple[SeriesKey, tuple[float, ...]], HistogramValue]) -> list[list[Any]]:
    return [[*series, list(edges), list(value.counts), value.total] for (series, edges), value in histograms.items()]


def _counters(rows: list[list[Any]]) -> dict[SeriesKey, float]:
    return {SeriesKey(*row[:4]): float(row[4]) for row in rows}


def _histograms(rows: list[list[Any]]) -> dict[tuple[SeriesKey, tuple[float, ...]], HistogramValue]:
    return {(SeriesKey(*row[:4]), tuple(row[4])): HistogramValue(tuple(row[5]), row[6]) for row in rows}


def _page(document: Document) -> RememberedPage:
    gone = Gone()
    gone.counters = _counters(document.get("gone_counters", []))
    gone.histograms = _histograms(document.get("gone_histograms", []))
    return RememberedPage(
        t=float(document["t"]),
        started_seconds=document["started"],
        engines=tuple(document["engines"]),
        counters=_counters(document["counters"]),
        histograms=_histograms(document["histograms"]),
        gone=gone,
    )
