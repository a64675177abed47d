"""How fast tokens come, and what drafting brings. In: a view. Out: TPOT against its target, acceptance per position."""

from __future__ import annotations

from agent.outputs import numbers
from agent.outputs.page.charts import bar, history
from agent.outputs.page.first_token import quantile_table
from agent.outputs.page.html import Markup, el, join, table
from agent.outputs.page.view import View
from agent.outputs.page.words import section
from agent.state import PoolState, Speculation


def tpot(view: View) -> Markup:
    """The section of time per output token."""
    pools = view.pools("decode", "both")
    parts = [_tpot_of(view, name, pool) for name, pool in pools.items()]
    lead = None if parts else "No pool decodes here."
    return section("tpot", "Time per output token", *parts, lead=lead)


def _tpot_of(view: View, name: str, pool: PoolState) -> Markup:
    found = pool.latency.get("tpot")
    step = pool.latency.get("itl")
    target = next((o.target for o in view.objectives if (o.indicator, o.scope) == ("tpot", name)), None)
    if found is None or found.mean is None:
        why = numbers.why_unknown(found) if found is not None else "not known"
        return el("p", f"Pool {name}: {why}.", class_="lead")
    tokens = pool.speculation.acceptance_length if pool.speculation is not None else None
    made = f" A step takes {numbers.seconds(step.mean)}" if step is not None and step.mean is not None else ""
    made += f" and brings {tokens:.3g} tokens." if made and tokens is not None else "." if made else ""
    lead = join(
        el("strong", numbers.seconds(found.mean)),
        f" per request on average, {numbers.seconds(pool.tpot_token_mean)} per token;",
        f" {numbers.count(found.count)} requests.",
        made,
    )
    return join(
        el("p", lead, class_="lead"),
        quantile_table(f"TPOT of pool {name}, per request", found.mean, found.quantiles, target),
    )


def speculation(view: View) -> Markup:
    """The section of speculative decoding."""
    drafting = {name: pool.speculation for name, pool in view.state.pools.items() if pool.speculation is not None}
    lead = None if drafting else "No pool shows speculative decoding."
    parts = [_acceptance(view, name, found) for name, found in drafting.items()]
    return section(
        "speculation", "Speculative decoding", el("div", *parts, class_="pair") if parts else None, lead=lead
    )


def _acceptance(view: View, name: str, found: Speculation) -> Markup:
    length = numbers.UNKNOWN if found.acceptance_length is None else f"{found.acceptance_length:.3g}"
    top = el(
        "p",
        el("span", length, class_="value"),
        el("span", f"tokens per step; {numbers.share(found.acceptance_rate)} of drafts accepted", class_="promise"),
        class_="line",
    )
    if not found.drafts:
        none = el("p", "No step with drafts in the window.", class_="quiet")
        return el("div", el("h3", f"Pool {name}"), none, class_="part")
    rows = []
    for position, share in enumerate(found.per_position):
        after = found.conditional_per_position[position] if position < len(found.conditional_per_position) else None
        title = f"draft position {position + 1}: {numbers.share(share)} accepted"
        drawn = bar(title, f"{numbers.share(after)} of those whose earlier drafts were accepted.", share, height=14)
        rows.append((str(position + 1), drawn, numbers.share(share), numbers.share(after)))
    head = ("position", "accepted", "of all steps", "if reached")
    drafts = f"{numbers.count(found.drafts)} steps with drafts"
    acceptance = table(f"Acceptance per position; {drafts}", head, rows, text_columns=2, class_="positions")
    return el("div", el("h3", f"Pool {name}"), top, acceptance, _history(view, name), class_="part")


def _history(view: View, name: str) -> Markup | None:
    points = view.line(f"acceptance_length/{name}")
    known = [point.value for point in points if point.value is not None]
    if not known:
        return None
    title = f"Acceptance length of pool {name}, tokens per step,"
    said = f"From {min(known):.3g} to {max(known):.3g} tokens per step."
    return join(
        el("p", "acceptance length", class_="quiet"),
        history(title, said, points, view.now, target=(1.0, "1 token: drafts bring nothing")),
    )
