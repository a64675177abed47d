"""What is weak about the promises. In: outlooks of the objectives, seen pools. Out: findings, flags that would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from agent.check.buckets import DEFAULT_EDGES, is_edge
from agent.check.findings import Finding, Level
from agent.check.flags import BUCKET_FAMILIES, CUSTOM_BUCKETS_SINCE, custom_buckets, is_at_least, short
from agent.check.outlook import Outlook, Precision
from agent.check.seen import SeenPool
from agent.check.words import amount, share
from agent.config import Config, duration_text
from agent.config.objectives import MAX_WINDOW_SECONDS

_WINDOWS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 259200)


def promise_findings(config: Config, outlooks: Sequence[Outlook], pools: Sequence[SeenPool]) -> Iterator[Finding]:
    """`pools` is empty of pages when nobody was asked; then only edges are judged, by vLLM's defaults."""
    for outlook in outlooks:
        yield from _edges(outlook)
    yield from _flags(config, outlooks, pools)
    usable = any(pool.usable for pool in pools)
    silent = [outlook for outlook in outlooks if outlook.rate is None] if usable else []
    if silent:
        where = tuple(f"objective {outlook.objective.name}" for outlook in silent)
        text = "no request was seen, so whether windows hold min_requests, and how precise they are, is not known"
        yield Finding("rate_unknown", "info", where, text, "check again under traffic, or watch longer: --for 2m")
    for outlook in outlooks:
        yield from _requests(outlook)


def precision_text(precision: Precision) -> str:
    """One clause: what is known at this scrape interval."""
    return (
        f"at a scrape every {duration_text(precision.interval_seconds)} an engine makes {amount(precision.per_scrape)} "
        f"of them per scrape: {share(precision.known_ratio)} of the values are known exactly, and about "
        f"{share(precision.undecided_ratio)} of the requests stay undecided"
    )


def _edges(outlook: Outlook) -> Iterator[Finding]:
    objective = outlook.objective
    if outlook.edges is None or outlook.on_edge:
        return
    where = (f"objective {objective.name}",)
    low, high = outlook.edges
    read = "vLLM's default edges" if outlook.default_edges else "edges of the pages"
    beside = f"between {low:g} s and {high:g} s" if high is not None else f"above the top edge {low:g} s"
    text = f"the target {objective.target:g} s is no bucket edge; it lies {beside} ({read})"
    if objective.statistic == "mean":
        text += ". The mean is exact all the same; shares and percentiles at the target are known within bounds only"
        yield Finding("target_not_on_bucket", "info", where, text)
        return
    text += f", so the {_judged(outlook)} is known within bounds and can be undecided"
    if outlook.precision is not None:
        text += f": {precision_text(outlook.precision)}"
        if outlook.shorter is not None:
            every = duration_text(outlook.shorter.interval_seconds)
            known, undecided = outlook.shorter.known_ratio, outlook.shorter.undecided_ratio
            text += f"; every {every}: {share(known)} exactly, about {share(undecided)} undecided"
    level: Level = "warning"
    helps = [f"promise {low:g} s or {high:g} s" if high is not None and low > 0 else f"promise {high or low:g} s"]
    if outlook.metric in BUCKET_FAMILIES:
        helps.append("give vLLM an edge there (custom_buckets)")
    if objective.certainty == "bounds":
        helps.append("or let the estimate decide (certainty: likely)")
    else:
        level = "info"
    yield Finding("target_not_on_bucket", level, where, text, ", ".join(helps))


def _judged(outlook: Outlook) -> str:
    return "share within it" if outlook.objective.statistic == "share" else outlook.objective.statistic


def _flags(config: Config, outlooks: Sequence[Outlook], pools: Sequence[SeenPool]) -> Iterator[Finding]:
    """For each pool one flag that holds all edges its objectives, and the promised prompt lengths, want."""
    for pool in pools:
        wanted: dict[str, tuple[Sequence[float], list[float]]] = {}
        for outlook in outlooks:
            if pool.name in outlook.pools and outlook.metric and outlook.edges is not None and not outlook.on_edge:
                known = wanted.setdefault(outlook.metric, (_edges_of(pool, outlook.metric), []))
                known[1].append(outlook.objective.target)
        # The share of requests that the promise covers is taken where users' requests are counted once.
        prompts = _edges_of(pool, "prompt_tokens") if pool.usable and pool.role != "prefill" else ()
        # Lengths are whole, so (16383, 32768] begins with 16384.
        ends = [float(config.contract.prompt_tokens[0] - 1), float(config.contract.prompt_tokens[1])]
        between = [end for end in ends if end > 0 and not is_edge(prompts, end)] if prompts else []
        if between:
            low, high = config.contract.prompt_tokens
            text = (
                f"prompts of {low} to {high} tokens are promised for, and buckets of prompt lengths end elsewhere "
                f"(top edge {prompts[-1]:g}): how many requests the promise covers is known within bounds"
            )
            where = (f"pool {pool.name}",)
            yield Finding("contract_not_on_bucket", "info", where, text, "give vLLM edges there (custom_buckets)")
            wanted["prompt_tokens"] = (prompts, between)
        flag = custom_buckets(wanted)
        if flag:
            yield Finding("custom_buckets", "info", (f"pool {pool.name}",), _flag_text(pool), flag)


def _flag_text(pool: SeenPool) -> str:
    old = sorted(
        {v for target in pool.targets if (v := target.answer.version) and not is_at_least(v, CUSTOM_BUCKETS_SINCE)}
    )
    since = short(CUSTOM_BUCKETS_SINCE)
    text = f"with this flag on every server of the pool (vLLM {since} and later) targets are decided exactly"
    return f"{text}; this is {', '.join(old)}, so it needs an upgrade first" if old else text


def _edges_of(pool: SeenPool, metric: str) -> tuple[float, ...]:
    """All edges that the pool's pages have for a metric; vLLM's defaults where there is no page."""
    found = {
        edge
        for target in pool.usable
        for key in (target.latest.layout.histograms if target.latest else ())
        if key.series.metric == metric
        for edge in key.edges
    }
    return tuple(sorted(found)) if pool.usable else DEFAULT_EDGES.get(metric, ())


def _requests(outlook: Outlook) -> Iterator[Finding]:
    objective, held = outlook.objective, outlook.in_window
    if outlook.rate is None or held is None or held >= objective.min_requests:
        return
    window = duration_text(objective.window_seconds)
    text = (
        f"at {amount(outlook.rate.per_second)} requests/s ({outlook.rate.basis}) a {window} window holds "
        f"{amount(held)} requests, fewer than min_requests {objective.min_requests}: insufficient data"
    )
    needed = 1.2 * objective.min_requests / outlook.rate.per_second if outlook.rate.per_second > 0 else math.inf
    longer = next((float(seconds) for seconds in _WINDOWS if seconds >= needed), None)
    if longer is not None:
        would = outlook.rate.per_second * longer
        help_ = f"a window of {duration_text(longer)} would hold {amount(would)}; or lower min_requests"
    else:
        help_ = f"even {duration_text(MAX_WINDOW_SECONDS)} would hold too few; lower min_requests"
    yield Finding("window_too_short", "warning", (f"objective {objective.name}",), text, help_)
