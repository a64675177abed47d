"""Where the time to the first token goes. In: a view. Out: a waterfall of mean parts, and percentiles with bounds.

    prefill leg (its mean end-to-end time) = queue + prefill + rest
    decode leg (its mean TTFT)             = wait for a place + KV transfer + first step + rest

The parts are means of the same requests up to those in flight, so they add up to the legs. On decode the queue time
holds the wait and the KV transfer; the transfer is shown apart as far as its handles tell. Where spans of nearly all
requests are there, their parts are taken instead: they add up request by request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.outputs import numbers
from agent.outputs.page.charts import Span, bar, bounded
from agent.outputs.page.html import Markup, el, join, table
from agent.outputs.page.view import View
from agent.outputs.page.words import quantile_value, section
from agent.state import Distribution, PoolState, Quantile

SPAN_PARTS: Mapping[str, tuple[str, str]] = {
    "retries": ("earlier attempts", "wait"),
    "queue": ("prefill queue", "wait"),
    "prefill": ("prefill", "compute"),
    "handover": ("hand-over", "wait"),
    "kv_wait": ("wait for KV", "move"),
    "first_step": ("first decode step", "compute"),
    "rest": ("rest", "rest"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the way to the first token. `kind` names its colour: wait, compute, move, rest."""

    name: str
    kind: str
    seconds: float | None
    note: str = ""


def first_token(view: View) -> Markup:
    """The section."""
    ttft = view.state.system.ttft
    requests = view.state.requests
    if requests is not None and requests.complete and any(each.mean is not None for each in requests.parts.values()):
        parts = [
            Part(SPAN_PARTS[name][0], SPAN_PARTS[name][1], dist.mean)
            for name, dist in requests.parts.items()
            if name in SPAN_PARTS
        ]
        source = "from request spans"
    else:
        parts = leg_parts(view)
        source = "from the means of both legs"
    if not any(part.seconds is not None for part in parts):
        said = {
            "metric_missing": "the pages lack the metrics",
            "no_data": "no request got its first token in the window",
        }
        lead = f"Not known: {said.get(ttft.status, 'the pages do not tell')}."
        return section("ttft", "Time to first token", lead=lead)
    lead = join(
        el("strong", numbers.seconds(ttft.mean)),
        f" on average, {numbers.count(ttft.count)} requests; parts {source}.",
    )
    return section("ttft", "Time to first token", waterfall(parts), percentiles(view), lead=lead)


def leg_parts(view: View) -> list[Part]:
    """The parts as the two pools' pages tell them; with pools of one role the other's parts are missing."""
    parts: list[Part] = []
    for name, pool in view.pools("prefill").items():
        apart = "" if len(view.pools("prefill")) == 1 else f" of {name}"
        queue, compute, whole = (_mean(pool, each) for each in ("queue", "prefill", "e2e"))
        parts += [
            Part(f"prefill queue{apart}", "wait", queue),
            Part(f"prefill{apart}", "compute", compute),
            Part(f"rest, prefill leg{apart}", "rest", _rest(whole, queue, compute)),
        ]
    for name, pool in view.pools("decode").items():
        apart = "" if len(view.pools("decode")) == 1 else f" of {name}"
        queue, step, whole = (_mean(pool, each) for each in ("queue", "prefill", "ttft"))
        moved = pool.kv_transfer.time.mean
        transfer = moved if queue is None or moved is None else min(moved, queue)
        parts += [
            Part(f"wait on decode{apart}", "wait", _rest(queue, transfer or 0.0)),
            Part(f"KV transfer{apart}", "move", transfer),
            Part(f"first decode step{apart}", "compute", step),
            Part(f"rest, decode leg{apart}", "rest", _rest(whole, queue, step)),
        ]
    for name, pool in view.pools("both").items():
        queue, compute, whole = (_mean(pool, each) for each in ("queue", "prefill", "ttft"))
        parts += [
            Part(f"queue on {name}", "wait", queue),
            Part(f"prefill on {name}", "compute", compute),
            Part(f"rest on {name}", "rest", _rest(whole, queue, compute)),
        ]
    return parts


def _mean(pool: PoolState, latency: str) -> float | None:
    found = pool.latency.get(latency)
    return found.mean if found is not None else None


def _rest(whole: float | None, *parts: float | None) -> float | None:
    """What is left; None where it is not known. Means of windows that differ by requests in flight: never below 0."""
    known = [part for part in parts if part is not None]
    return None if whole is None or len(known) < len(parts) else max(0.0, whole - sum(known))


def waterfall(parts: list[Part]) -> Markup:
    """One row per part; each begins where the one before ended."""
    whole = sum(part.seconds or 0.0 for part in parts) or 1.0
    rows, at = [], 0.0
    for part in parts:
        if part.seconds is None:
            drawn = bar(f"{part.name}: not known", "Nothing is drawn.", None)
        else:
            title = f"{part.name}: {numbers.seconds(part.seconds)}"
            takes = numbers.share(part.seconds / whole)
            begin = f"Begins {numbers.seconds(at)} after arrival and takes {takes} of the whole."
            drawn = bar(title, begin, part.seconds / whole, begin=at / whole, class_=part.kind, height=14)
            at += part.seconds
        share = numbers.share(part.seconds / whole) if part.seconds is not None else numbers.UNKNOWN
        rows.append((part.name, drawn, numbers.seconds(part.seconds), share))
    return table(
        "Mean parts, in the order a request meets them",
        ("part", "when", "mean", "share"),
        rows,
        text_columns=2,
        class_="waterfall",
    )


def percentiles(view: View) -> Markup | None:
    """The user's TTFT beside what was promised."""
    ttft = view.state.system.ttft
    target = next((o.target for o in view.objectives if (o.indicator, o.scope) == ("ttft", "system")), None)
    return quantile_table("TTFT as the user has it", ttft.mean, ttft.quantiles, target)


def quantile_table(
    caption: str, mean: float | None, quantiles: Mapping[str, Quantile | None], target: float | None
) -> Markup | None:
    """Mean and percentiles as dots in their bands, against the target, and as numbers."""
    found = {f"p{100 * float(name):g}": quantile for name, quantile in quantiles.items()}
    known = [quantile for quantile in found.values() if quantile is not None]
    if mean is None and not known:
        return None
    ends = [each for quantile in known for each in (quantile.low, quantile.high or quantile.low * 1.2)]
    most = 1.06 * max([*ends, mean or 0.0, target or 0.0]) or 1.0
    promised = f", promised {numbers.seconds(target)}" if target is not None else ""
    scale = f"The scale goes from 0 to {numbers.seconds(most)}."
    rows: list[tuple[str | Markup, ...]] = []
    if mean is not None:
        drawn = bounded(f"mean: {numbers.seconds(mean)}{promised}", scale, Span(mean, None, None), target, most)
        rows.append(("mean", drawn, numbers.seconds(mean), "exact", ""))
    for name, quantile in found.items():
        if quantile is None:
            continue
        span = Span(quantile.value, quantile.low, quantile.high, quantile.likely)
        drawn = bounded(f"{name}: {quantile_value(quantile)}{promised}", scale, span, target, most)
        likely = "" if quantile.likely is None else " to ".join(numbers.seconds(each) for each in quantile.likely)
        rows.append((name, drawn, quantile_value(quantile), _bounds(quantile), likely))
    head: tuple[str, ...] = (
        "",
        "against the promise" if target is not None else "",
        "value",
        "certainly",
        "likely (95 %)",
    )
    if not any(row[4] for row in rows):
        head, rows = head[:4], [row[:4] for row in rows]
    return table(f"{caption}{promised}", head, rows, text_columns=2, class_="quantiles")


def _bounds(quantile: Quantile) -> str:
    if quantile.high is None:
        return f"above {numbers.seconds(quantile.low)}"
    return f"{numbers.seconds(quantile.low)} to {numbers.seconds(quantile.high)}"


def mean_word(found: Distribution) -> str:
    """The mean, or why there is none."""
    return numbers.seconds(found.mean) if found.mean is not None else numbers.why_unknown(found)
