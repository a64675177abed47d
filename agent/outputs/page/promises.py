"""The verdict and its cause, first of all. In: a view. Out: the headline, and one card per objective."""

from __future__ import annotations

from dataclasses import dataclass

from agent.config import Objective
from agent.outputs import numbers
from agent.outputs.page.charts import Span, bounded, history
from agent.outputs.page.html import Markup, el, join, link
from agent.outputs.page.view import View
from agent.outputs.page.words import (
    Tone,
    badge,
    icon,
    interval,
    promise,
    since,
    subject,
    unit_of,
    verdict_word,
    window,
)
from agent.state import VerdictState
from agent.verdicts.phrases import amount
from agent.verdicts.wording import plural

_STATUS = {"pending": "pending", "firing": "firing", "resolved": "recently resolved"}


@dataclass(frozen=True, slots=True)
class Headline:
    """The one sentence that says how things are; `short` stands in the browser's tab."""

    tone: Tone
    text: str
    short: str


def judged(view: View) -> list[tuple[Objective, VerdictState | None]]:
    """Every objective with its verdict; broken ones first, then those that nobody can tell."""
    found = {(verdict.objective, verdict.scope): verdict for verdict in view.state.verdicts}
    pairs = [(objective, found.get((objective.name, objective.scope))) for objective in view.objectives]
    order: dict[Tone, int] = {"bad": 0, "warn": 1, "unknown": 2, "none": 3, "good": 4}
    return sorted(pairs, key=lambda pair: order[verdict_word(pair[1])[1]])


def headline(view: View) -> Headline:
    """Of all promises and incidents together."""
    pairs = judged(view)
    words = [verdict_word(verdict)[0] for _, verdict in pairs]
    broken = [subject(objective) for objective, verdict in pairs if verdict and verdict.verdict == "breached"]
    kept, total = words.count("kept"), len(words)
    critical = [alert for alert in view.alerts if alert.ends_at is None and alert.severity == "critical"]
    grave = [each for each in view.state.problems if each.severity == "critical"]
    if broken:
        said = (
            f"A promise is broken: {_inside(broken[0])}" if len(broken) == 1 else f"{len(broken)} promises are broken"
        )
        return Headline("bad", said, "BROKEN")
    if not pairs:
        tone: Tone = "bad" if critical or grave else "none"
        return Headline(tone, "No promise is configured here", "no promises")
    if critical or grave:
        what = plural(len(critical), "critical incident") if critical else plural(len(grave), "critical problem")
        before = "Promises are kept, but " if kept == total else ""
        verb = "stands" if max(len(critical), 1) == 1 and (critical or len(grave) == 1) else "stand"
        return Headline("bad", f"{before}{what} {verb}", "CRITICAL")
    if kept == total:
        said = (
            "The promise is kept"
            if total == 1
            else "Both promises are kept"
            if total == 2
            else f"All {total} promises are kept"
        )
        return Headline("good", said, "kept")
    if len(set(words)) == 1:
        said = {
            "cannot tell": "Cannot tell whether the promises are kept",
            "too few requests": "Too few requests to judge the promises",
            "no traffic": "No traffic: there is nothing to judge",
            "not judged yet": "Not judged yet: the first pages are on their way",
            "not measured": "Not measured: the pages lack what the promises are about",
        }.get(words[0], "The promises do not apply")
        return Headline("unknown" if words[0] in ("cannot tell", "not measured") else "none", said, words[0])
    others = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words) if word != "kept")
    return Headline("unknown", f"{kept} of {plural(total, 'promise')} kept; {others}", "cannot tell")


def _inside(said: str) -> str:
    """A subject within a sentence; TTFT stays as it is."""
    return said if said[:2].isupper() else said[:1].lower() + said[1:]


def promises(view: View) -> Markup:
    """The section at the top."""
    head = headline(view)
    title = el("h1", icon(head.tone), el("span", head.text), id="verdict-h", class_=f"verdict {head.tone}")
    if view.mode == "sidecar" and not view.state.verdicts:
        body = el(
            "p", "This pdwatch watches the processes of its own host; the central one judges the pools.", class_="lead"
        )
    else:
        body = el("div", *(_card(view, objective, verdict) for objective, verdict in judged(view)), class_="cards")
    missing = (
        el("p", "No lines of the last 24 h: no history is kept here.", class_="quiet") if view.history is None else None
    )
    return el("section", title, _summary(view), body, missing, id="verdict", aria_labelledby="verdict-h")


def _summary(view: View) -> Markup:
    firing = [alert for alert in view.alerts if alert.ends_at is None]
    grave = [each for each in view.state.problems if each.severity != "info"]
    targets = view.targets()
    up = sum(target.up for target in targets.values())
    worst: Tone = "bad" if any(alert.severity == "critical" for alert in firing) else "warn" if firing else "good"
    items: list[tuple[str, Tone, str]] = [
        ("#incidents", worst, f"{plural(len(firing), 'incident')} firing" if firing else "no incident fires"),
        (
            "#problems",
            "warn" if grave else "good",
            f"{plural(len(grave), 'problem')} to act on" if grave else "no problem to act on",
        ),
        (
            "#targets",
            "none" if not targets else "good" if up == len(targets) else "warn" if up else "bad",
            f"{up} of {plural(len(targets), 'target')} up" if targets else "no targets",
        ),
    ]
    return el("ul", *(el("li", link(to, icon(tone), el("span", said))) for to, tone, said in items), class_="summary")


def _card(view: View, objective: Objective, verdict: VerdictState | None) -> Markup:
    word, tone = verdict_word(verdict)
    unit = unit_of(objective)
    name = el("h2", subject(objective))
    if verdict is None:
        line = el("p", el("span", numbers.UNKNOWN, class_="value"), el("span", promise(objective), class_="promise"))
        return el("article", badge(word, tone), name, line, class_=f"card {tone}")
    status = _STATUS.get(verdict.status)
    top = el(
        "p",
        badge(word, tone),
        el("span", join(f"{status} " if status else None, since(verdict.since, view.now)), class_="quiet"),
        class_="top",
    )
    value = amount(verdict.value, unit) if verdict.value is not None else numbers.UNKNOWN
    line = el("p", el("span", value, class_="value"), el("span", promise(objective), class_="promise"), class_="line")
    return el(
        "article",
        top,
        name,
        line,
        _gauge(objective, verdict),
        _how(objective, verdict),
        _cause(verdict),
        _line(view, objective, verdict),
        class_=f"card {tone}",
    )


def _gauge(objective: Objective, verdict: VerdictState) -> Markup | None:
    known = [each for each in (verdict.value, verdict.low, verdict.high) if each is not None and each < float("inf")]
    if not known:
        return None
    unit = unit_of(objective)
    most = max(*known, verdict.target) * 1.15 if unit != "ratio" else min(1.0, max(*known, verdict.target) * 1.3)
    said = f"{amount(verdict.value, unit)}, {promise(objective)}"
    bounds = interval(verdict.low, verdict.high, unit)
    return bounded(
        f"{subject(objective)}: {said}",
        f"{f'Between the bounds {bounds}. ' if bounds else ''}The scale goes from 0 to {amount(most, unit)}.",
        Span(verdict.value, verdict.low, verdict.high),
        verdict.target,
        most or 1.0,
    )


def _how(objective: Objective, verdict: VerdictState) -> Markup:
    """What the number rests on: bounds, count, window."""
    bounds = interval(verdict.low, verdict.high, unit_of(objective))
    parts = [
        f"certainly {bounds}" if bounds else None,
        f"{numbers.count(verdict.count)} {'request' if verdict.count == 1 else 'requests'} in the {window(objective)}",
        f"judged on {verdict.judged_on.replace('_', ' ')}" if verdict.judged_on else None,
    ]
    return el("p", "; ".join(part for part in parts if part), class_="how")


def _cause(verdict: VerdictState) -> Markup | None:
    """The cause while it is broken; else, where no clear answer was given, why."""
    if verdict.cause is not None:
        return el(
            "p", el("strong", "Cause: "), str(verdict.cause.get("text") or verdict.cause.get("code")), class_="cause"
        )
    if verdict.verdict == "breached":
        return el("p", el("strong", "Cause: "), "not known", class_="cause")
    if verdict.verdict != "met" and verdict.text:
        return el("p", verdict.text, class_="cause")
    return None


def _line(view: View, objective: Objective, verdict: VerdictState) -> Markup | None:
    if view.history is None:
        return None
    points = view.line(f"objective/{objective.name}/{objective.scope}")
    known = [point.value for point in points if point.value is not None]
    if not known:
        return el("p", "No history of this objective yet.", class_="quiet")
    unit = unit_of(objective)
    return history(
        f"{subject(objective)}",
        f"From {amount(min(known), unit)} to {amount(max(known), unit)}; {promise(objective)}.",
        points,
        view.now,
        target=(verdict.target, amount(verdict.target, unit)),
    )
