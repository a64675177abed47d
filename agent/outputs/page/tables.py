"""Slowest requests, and how old the data are. In: a view. Out: two sections of tables."""

from __future__ import annotations

from agent.outputs import numbers
from agent.outputs.page.charts import percent, picture
from agent.outputs.page.first_token import SPAN_PARTS
from agent.outputs.page.html import Child, Markup, el, link, table
from agent.outputs.page.view import View
from agent.outputs.page.words import badge, moment, section
from agent.requests_state import SlowRequest
from agent.state import TargetState
from agent.verdicts.wording import duration, plural


def slowest(view: View) -> Markup | None:
    """The section of the slowest requests; None where no span has ever come."""
    requests, found = view.state.requests, view.state.slowest_requests
    if requests is None and not found:
        return None
    if not found:
        return section("slowest", "Slowest requests", lead="No request's spans ended in the window.")
    longest = max(request.ttft_s for request in found) or 1.0
    rows = [
        (
            link(each.link, each.request, rel="noreferrer") if each.link else each.request,
            _parts(each, longest),
            numbers.seconds(each.ttft_s),
            numbers.seconds(each.tpot_s),
            numbers.seconds(each.e2e_s),
            numbers.count(each.prompt_tokens),
            numbers.count(each.completion_tokens),
            f"{each.prefill or numbers.UNKNOWN} → {each.decode}",
            moment(each.at, view.now),
        )
        for each in found
    ]
    head = ("request", "parts of TTFT", "TTFT", "TPOT", "whole", "prompt tokens", "output tokens", "way", "ended")
    joined = f"{numbers.count(requests.joined)} requests known from spans" if requests is not None else ""
    return section(
        "slowest",
        "Slowest requests",
        table("By TTFT, slowest first", head, rows, text_columns=2, class_="slowest"),
        lead=joined,
    )


def _parts(request: SlowRequest, longest: float) -> Markup:
    at, drawn, said = 0.0, [el("rect", width="100%", height=10, rx=2, class_="track")], []
    for name, seconds in request.parts.items():
        words, kind = SPAN_PARTS.get(name, (name, "rest"))
        if seconds is None:
            said.append(f"{words} not known")
        elif seconds > 0:
            said.append(f"{words} {numbers.seconds(seconds)}")
            drawn.append(
                el("rect", x=percent(at / longest), width=percent(seconds / longest), height=10, class_=f"bar {kind}")
            )
            at += seconds
    return picture(f"TTFT of {numbers.seconds(request.ttft_s)}", "; ".join(said) or "No parts are known.", 10, *drawn)


def data_age(view: View) -> Markup:
    """The section of targets: whether their pages come, and how old they are."""
    state = view.state
    rows = [
        _target(view, name, pool, target)
        for pool, found in state.pools.items()
        for name, target in found.targets.items()
    ]
    if state.system.router is not None:
        rows += [_target(view, name, "router", target) for name, target in state.system.router.targets.items()]
    head = ("target", "pool", "page", "age", "engines", "took", "size", "restarts")
    if not rows:
        return section("targets", "Data", lead="No targets are configured.")
    caption = f"Latest page of each of {plural(len(rows), 'target')}; asked every {duration(view.interval_seconds)}"
    return section("targets", "Data", table(caption, head, rows, text_columns=3))


def _target(view: View, name: str, pool: str, target: TargetState) -> tuple[Child, ...]:
    stale = target.age_s is not None and target.age_s > view.stale_after_seconds
    if not target.up:
        page: Child = el("span", badge("down", "bad"), f" {target.error}" if target.error else None)
    elif target.age_s is None:
        page = badge("none yet", "none")
    else:
        page = badge("out of date", "warn") if stale else badge("up", "good")
    return (
        name,
        pool,
        page,
        numbers.seconds(target.age_s),
        str(len(target.engines)),
        numbers.seconds(target.scrape_s),
        numbers.size(target.page_bytes),
        str(target.restarts),
    )
