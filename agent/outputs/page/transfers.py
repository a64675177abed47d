"""The hand-over of KV. In: a view. Out: how much moves, how fast, what fails and what runs out."""

from __future__ import annotations

from agent.outputs import numbers
from agent.outputs.page.charts import history
from agent.outputs.page.first_token import mean_word, quantile_table
from agent.outputs.page.html import Markup, el, join
from agent.outputs.page.view import View
from agent.outputs.page.words import Tone, fact, section
from agent.state import PoolState


def transfers(view: View) -> Markup:
    """The section."""
    known = {
        name: pool
        for name, pool in view.state.pools.items()
        if pool.kv_transfer.transfers is not None or pool.kv_transfer.expired is not None
    }
    parts = [_pool(view, name, pool) for name, pool in known.items()]
    lead = None if parts else "Not known: no page shows KV transfers."
    times = [
        quantile_table(
            f"Time of one transfer, pool {name}", pool.kv_transfer.time.mean, pool.kv_transfer.time.quantiles, None
        )
        for name, pool in known.items()
        if pool.kv_transfer.time.mean is not None
    ]
    return section("kv", "KV transfer", el("div", *parts, class_="pair") if parts else None, *times, lead=lead)


def _pool(view: View, name: str, pool: PoolState) -> Markup:
    found = pool.kv_transfer
    if pool.role == "prefill":
        top = (numbers.count(found.expired), "leases expired")
        facts = [
            _bad("fetched after expiry", found.after_expiry),
            _bad("failed notifications", found.failed_notifications),
        ]
    else:
        top = (f"{numbers.size(found.bytes_per_s)}/s" if found.bytes_per_s is not None else numbers.UNKNOWN, "of KV")
        facts = [
            fact("transfers", numbers.count(found.transfers), hint="NIXL handles" if found.source == "nixl" else None),
            fact("time of one, mean", mean_word(found.time)),
            fact(
                "speed of one, mean",
                f"{numbers.size(found.handle_bytes_per_s)}/s"
                if found.handle_bytes_per_s is not None
                else numbers.UNKNOWN,
            ),
            fact("moved in the window", numbers.size(found.bytes)),
            _bad("failed", found.failed),
            _bad("failed notifications", found.failed_notifications),
            _bad("tokens computed again", found.recomputed_tokens, "warn"),
        ]
    line = el("p", el("span", top[0], class_="value"), el("span", top[1], class_="promise"), class_="line")
    return el(
        "div",
        el("h3", f"Pool {name}"),
        line,
        el("dl", *facts, class_="facts"),
        _history(view, name),
        class_="part",
    )


def _bad(name: str, count: int | None, tone: Tone = "bad") -> Markup:
    return fact(name, numbers.count(count), tone=tone if count else None)


def _history(view: View, name: str) -> Markup | None:
    points = view.line(f"kv_transfer/{name}")
    known = [point.value for point in points if point.value is not None]
    if not known:
        return None
    title = f"Mean time of a KV transfer of pool {name}"
    said = f"From {numbers.seconds(min(known))} to {numbers.seconds(max(known))}."
    drawn = history(title, said, points, view.now)
    return join(el("p", f"mean time of one, at most {numbers.seconds(max(known))}", class_="quiet"), drawn)
