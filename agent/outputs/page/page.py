"""The page that a person sees at `/`. In: a view. Out: one HTML text; styles and a little script stand beside it.

Verdict and cause come first, then the way of a request, then the parts, and at the end what the numbers rest on. It
needs no script: without one it loads itself again, with one only what has changed is exchanged.
"""

from __future__ import annotations

from agent import __version__
from agent.outputs import numbers
from agent.outputs.page.assets import asset
from agent.outputs.page.decoding import speculation, tpot
from agent.outputs.page.engines import engines
from agent.outputs.page.first_token import first_token
from agent.outputs.page.flow import flow
from agent.outputs.page.html import Markup, el, join, link
from agent.outputs.page.incidents import incidents, problems
from agent.outputs.page.memory import memory
from agent.outputs.page.promises import headline, promises
from agent.outputs.page.tables import data_age, slowest
from agent.outputs.page.transfers import transfers
from agent.outputs.page.view import View
from agent.outputs.page.words import moment

LEAST_REFRESH_SECONDS = 5.0
LINKS = (("metrics", "metrics"), ("api/v1/state", "state"), ("config", "configuration"))
PARTS = (flow, first_token, tpot, speculation, transfers, memory, engines, incidents, slowest, problems, data_age)


def page_html(view: View) -> str:
    """The whole page."""
    name = f"pdwatch {view.deployment}" if view.deployment else "pdwatch"
    head = headline(view)
    every = max(LEAST_REFRESH_SECONDS, view.interval_seconds)
    top = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{head.short} · {name}"),
        el("link", rel="icon", href=asset(f"icon-{head.tone}.svg"), type="image/svg+xml", id="icon"),
        el("link", rel="stylesheet", href=asset("page.css")),
        el("script", src=asset("page.js"), defer=True),
        el("noscript", el("meta", http_equiv="refresh", content=f"{every:.0f}")),
    )
    main = el("main", promises(view), *(part(view) for part in PARTS), id="main", tabindex="-1")
    body = el(
        "body",
        el("a", "Skip to the verdict", href="#main", class_="skip"),
        _header(view, every),
        _note(view),
        main,
        _footer(),
    )
    return f"<!doctype html>{el('html', top, body, lang='en')}"


def _header(view: View, every: float) -> Markup:
    """What the page is about and how old it is; the script counts on from here."""
    age = view.data_age_seconds()
    said = "no data yet" if age is None else f"data {numbers.seconds(age)} old"
    fresh = el(
        "p",
        el("span", said, id="age"),
        el("span", " at ", moment(view.now, view.now), id="at"),
        id="freshness",
        data_age=None if age is None else f"{age:.3f}",
        data_every=f"{every:g}",
        data_stale=f"{view.stale_after_seconds:g}",
    )
    # Filled by the script only when the connection goes or comes back, so that it is not read aloud all the time.
    lost = el("p", id="lost", role="status")
    links = el("nav", *(link(to, word) for to, word in LINKS), aria_label="Other pages")
    title = el("p", el("strong", "pdwatch"), el("span", view.deployment) if view.deployment else None, class_="brand")
    return el("header", el("div", title, fresh, links, class_="bar"), lost)


def _note(view: View) -> Markup | None:
    """Where the data come from when they are not live."""
    return el("p", view.note, class_="note", id="note") if view.note else None


def _footer() -> Markup:
    said = "Unknown is shown as –, never as 0. A pale band holds a number for sure; a dark one is its 95 % interval."
    return el("footer", el("p", said), el("p", join(f"pdwatch {__version__}")))
