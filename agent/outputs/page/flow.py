"""The way of a request through the pools. In: a view. Out: a picture of boxes and arrows that is an ordered list.

Router, prefill, KV transfer, decode, user: each with its numbers. It is a list of texts with drawn arrows and engines,
so that a phone shows it from top to bottom, and a screen reader reads it in the order of the flow.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.outputs import numbers
from agent.outputs.page.charts import picture
from agent.outputs.page.html import Child, Markup, el, join
from agent.outputs.page.view import View
from agent.outputs.page.words import Tone, fact, section
from agent.state import PoolState
from agent.verdicts.wording import duration, plural

_ARROW = Markup('<path class="s" d="M1 8h26M21 2.5L27 8l-6 5.5"/>')


def flow(view: View) -> Markup:
    """The section."""
    prefill, decode, both = view.pools("prefill"), view.pools("decode"), view.pools("both")
    steps = [_router(view)]
    if prefill:
        steps += [_arrow("prompts"), *(_pool(name, pool) for name, pool in prefill.items())]
    if decode:
        steps += [_arrow("KV cache"), _transfer(prefill, decode), _arrow(None)]
        steps += [_pool(name, pool) for name, pool in decode.items()]
    if both:
        steps += [_arrow("prompts"), *(_pool(name, pool) for name, pool in both.items())]
    steps += [_arrow("tokens"), _user(view, {**decode, **both})]
    window = duration(view.state.window_s)
    lead = f"Rates, means and counts are over the last {window}; running, waiting and KV use are now."
    return section("flow", "The way of a request", el("ol", *steps, class_="flow"), lead=lead)


def _arrow(words: str | None) -> Markup:
    drawn = el("svg", _ARROW, viewBox="0 0 28 16", width=28, height=16, aria_hidden="true", focusable="false")
    return el("li", drawn, el("span", words) if words else None, class_="arrow")


def _box(kind: str, title: Child, subtitle: str, big: str, big_said: str, *rest: Child) -> Markup:
    return el(
        "li",
        el("h3", title, el("span", subtitle, class_="quiet")),
        el("p", el("span", big, class_="value"), el("span", big_said, class_="promise"), class_="line"),
        *rest,
        class_=f"box {kind}",
    )


def _router(view: View) -> Markup:
    router = view.state.system.router
    system = view.state.system
    if router is None:
        legs = system.legs
        facts = (
            [fact("prefill legs", numbers.count(legs.prefill)), fact("decode legs", numbers.count(legs.decode))]
            if legs is not None
            else []
        )
        rate = numbers.per_second(system.requests_per_s)
        return _box("router", "Router", "not watched itself", rate, "requests", el("dl", *facts))
    facts = [
        fact("running", numbers.count(router.running)),
        fact("queued", numbers.count(router.queued)),
        fact("failed", numbers.count(router.errors), tone="bad" if router.errors else None),
    ]
    rate = numbers.per_second(router.requests_per_s)
    return _box("router", "Router", router.kind or "unknown kind", rate, "requests", el("dl", *facts))


def _pool(name: str, pool: PoolState) -> Markup:
    up = sum(target.up for target in pool.targets.values())
    engines = sum(len(target.engines) for target in pool.targets.values())
    subtitle = f"{up} of {plural(len(pool.targets), 'target')} up, {plural(engines, 'engine')}"
    load = pool.load
    if pool.role == "prefill":
        big, said = numbers.per_second(pool.throughput.prompt_tokens_per_s, "tok"), "prompt tokens"
        own = [
            fact("queue, mean", numbers.seconds(_mean(pool, "queue"))),
            fact("compute, mean", numbers.seconds(_mean(pool, "prefill"))),
        ]
    else:
        big, said = numbers.per_second(pool.throughput.generation_tokens_per_s, "tok"), "generated tokens"
        own = [
            fact("step, mean", numbers.seconds(_mean(pool, "itl"))),
            fact("TPOT, mean", numbers.seconds(_mean(pool, "tpot"))),
        ]
    waiting: Tone | None = "warn" if (load.waiting or 0) > (load.running or 0) else None
    facts = [
        *own,
        fact("running", numbers.count(load.running)),
        fact("waiting", numbers.count(load.waiting), tone=waiting),
        fact("KV in use", numbers.share(load.kv_usage_mean), hint=f"fullest {numbers.share(load.kv_usage_max)}"),
        fact("preemptions", numbers.count(load.preemptions)),
    ]
    title = name if name == pool.role else f"{name} ({pool.role})"
    return _box("pool", title[:1].upper() + title[1:], subtitle, big, said, _engines(name, pool), el("dl", *facts))


def _mean(pool: PoolState, latency: str) -> float | None:
    found = pool.latency.get(latency)
    return found.mean if found is not None else None


def _engines(name: str, pool: PoolState) -> Markup | None:
    """One column per engine, as high as its KV cache is full; targets stand apart."""
    groups = [list(target.engines.values()) for target in pool.targets.values() if target.engines]
    count = sum(len(group) for group in groups)
    if not 0 < count <= 64:
        return None
    step = 100.0 / (count + 0.5 * (len(groups) - 1))
    columns, at = [], 0.0
    for group in groups:
        for engine in group:
            use = engine.load.kv_usage_max
            place = f"{at + 0.1 * step:.2f}%"
            width = f"{0.8 * step:.2f}%"
            columns.append(el("rect", x=place, width=width, y=0, height=28, rx=2, class_="track"))
            if use is not None:
                high = max(1.0, 28 * min(1.0, use))
                columns.append(el("rect", x=place, width=width, y=28 - high, height=high, rx=2, class_="bar"))
            at += step
        at += 0.5 * step
    title = f"KV cache in use, engine by engine of pool {name}"
    return picture(
        title, f"{plural(count, 'engine')}; the fullest uses {numbers.share(pool.load.kv_usage_max)}.", 28, *columns
    )


def _transfer(prefill: Mapping[str, PoolState], decode: Mapping[str, PoolState]) -> Markup:
    moved = [pool.kv_transfer for pool in decode.values()]
    rates = [each.bytes_per_s for each in moved if each.bytes_per_s is not None]
    rate = f"{numbers.size(sum(rates))}/s" if rates else numbers.UNKNOWN
    means = [numbers.seconds(each.time.mean) for each in moved]
    failed = _sum([each.failed for each in moved])
    expired = _sum([pool.kv_transfer.expired for pool in prefill.values()])
    waiting = _sum([pool.load.kv_fetch.in_progress for pool in decode.values()])
    facts = [
        fact("one takes", " / ".join(means)),
        fact("being fetched", numbers.count(waiting)),
        fact("failed", numbers.count(failed), tone="bad" if failed else None),
        fact("leases expired", numbers.count(expired), tone="bad" if expired else None),
    ]
    source = next((each.source for each in moved if each.source), None)
    return _box("kv", "KV transfer", source or "connector not known", rate, "moved", el("dl", *facts))


def _user(view: View, decode: Mapping[str, PoolState]) -> Markup:
    ttft = view.state.system.ttft
    speeds = [numbers.per_second(pool.throughput.tokens_per_s_per_user, "tok") for pool in decode.values()]
    finished = [sum(pool.outcomes.values()) for pool in decode.values()]
    failed = sum(pool.outcomes.get("error", 0) for pool in decode.values())
    facts = [
        fact("per user", " / ".join(speeds) or numbers.UNKNOWN),
        fact("finished", numbers.count(sum(finished) if finished else None)),
        fact("errors", numbers.count(failed if finished else None), tone="bad" if failed else None),
    ]
    how = {"router": "TTFT by the router", "traces": "TTFT by spans", "composed": "TTFT of both legs"}[ttft.source]
    return _box("user", "User", how, numbers.seconds(ttft.mean), "to the first token", join(el("dl", *facts)))


def _sum(values: list[int | None] | list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
