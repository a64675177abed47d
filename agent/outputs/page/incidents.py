"""Incidents and problems. In: a view. Out: what fires, is about to, or has just ended; and all that is known wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from agent.outputs.page.html import Child, Markup, el, join, link, table
from agent.outputs.page.view import View
from agent.outputs.page.words import SEVERITIES, badge, moment, section, since, subject
from agent.state import ProblemState
from agent.verdicts.alert import Alert
from agent.verdicts.alert_rules import OBJECTIVE_ALERT, alert_rule
from agent.verdicts.wording import duration, plural

FIRST_PROBLEMS = 12
"""Shown at once; the others unfold."""
MOST_PROBLEMS = 200
_BUNDLE = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9]{1,80}-[0-9a-f]{8}")


def incidents(view: View) -> Markup:
    """The section of alerts."""
    gravest_first = sorted(view.alerts, key=lambda alert: (alert.severity != "critical", alert.starts_at))
    firing = [_alert(view, alert) for alert in gravest_first if alert.ends_at is None]
    ended = [_alert(view, alert) for alert in gravest_first if alert.ends_at is not None]
    waiting = _pending(view)
    if not (firing or waiting or ended):
        lead: Child = "None fires, none is about to, and none has ended in the last 15 minutes."
    else:
        lead = f"{len(firing)} firing, {len(waiting)} pending, {len(ended)} resolved in the last 15 minutes."
    every = link("evidence/", "All evidence of the past") if view.evidence else None
    items = el("ul", *firing, *waiting, *ended, class_="incidents") if firing or waiting or ended else None
    return section("incidents", "Incidents", items, el("p", every) if every else None, lead=lead)


def _alert(view: View, alert: Alert) -> Markup:
    texts = alert.annotations
    about = ", ".join(
        f"{name} {alert.labels[name]}"
        for name in ("scope", "objective", "target", "engine", "process")
        if alert.labels.get(name)
    )
    if alert.ends_at is None:
        state = badge(f"{alert.severity}, firing", SEVERITIES.get(alert.severity, "none"))
        when = since(alert.starts_at, view.now)
    else:
        state = badge("resolved", "good")
        lasted = duration(alert.ends_at - alert.starts_at)
        when = join("ended ", moment(alert.ends_at, view.now), f" after {lasted}")
    return _item(
        state,
        when,
        texts.get("summary") or alert.name,
        about,
        texts.get("description"),
        texts.get("cause"),
        [
            _evidence(texts.get("evidence")),
            _outside("Runbook", texts.get("runbook_url")),
            _outside("Dashboard", texts.get("dashboard_url")),
        ],
    )


def _pending(view: View) -> list[Markup]:
    names = {(objective.name, objective.scope): objective for objective in view.objectives}
    found = []
    for verdict in view.state.verdicts:
        objective = names.get((verdict.objective, verdict.scope))
        if verdict.status != "pending" or objective is None:
            continue
        hold = f"It fires when it has stood for {duration(objective.hold_seconds)}."
        cause = str(verdict.cause.get("text", "")) if verdict.cause else None
        about = f"scope {verdict.scope}, objective {verdict.objective}"
        runbook = _outside("Runbook", _runbook(view, OBJECTIVE_ALERT))
        title = f"A promise may be broken: {subject(objective)}."
        found.append(
            _item(
                badge("pending", "warn"),
                since(verdict.since, view.now),
                title,
                about,
                f"{verdict.text}. {hold}" if verdict.text else hold,
                cause,
                [runbook],
            )
        )
    return found


def _item(
    state: Markup,
    when: Markup | None,
    title: str,
    about: str,
    description: str | None,
    cause: str | None,
    links: list[Markup | None],
) -> Markup:
    shown = [each for each in links if each is not None]
    return el(
        "li",
        el("p", state, el("span", when, class_="quiet"), class_="top"),
        el("h3", title),
        el("p", about, class_="quiet") if about else None,
        el("p", description) if description else None,
        el("p", el("strong", "Cause: "), cause, class_="cause") if cause else None,
        el("p", *shown, class_="links") if shown else None,
    )


def _evidence(place: str | None) -> Markup | None:
    """The bundle's report on this server; a place that is none of ours is said as it stands."""
    if not place:
        return None
    found = _BUNDLE.search(place)
    if found is None:
        return el("span", f"Evidence: {place}")
    return link(f"evidence/{quote(found[0])}/report.md", "Evidence")


def _outside(word: str, address: str | None) -> Markup | None:
    return link(address, word, rel="noreferrer") if address else None


def _runbook(view: View, name: str) -> str | None:
    return f"{view.runbooks}#{name.lower()}" if view.runbooks else None


def problems(view: View) -> Markup:
    """The section of everything that is wrong or worth knowing, gravest first."""
    found = view.state.problems
    if not found:
        return section("problems", "Problems", lead="None known.")
    order = {"critical": 0, "warning": 1, "info": 2}
    worst_first = sorted(found, key=lambda problem: (order[problem.severity], problem.since))
    counts = [(word, sum(problem.severity == word for problem in found)) for word in order]
    head = ("severity", "problem", "where", "what", "for")
    said = ", ".join(f"{count} {word}" for word, count in counts if count)
    rows = [_row(view, problem) for problem in worst_first[:MOST_PROBLEMS]]
    first = table(
        f"{plural(len(found), 'problem')} now: {said}", head, rows[:FIRST_PROBLEMS], text_columns=4, class_="problems"
    )
    return section("problems", "Problems", first, _more(rows[FIRST_PROBLEMS:], head, len(found)))


def _more(rows: Sequence[tuple[Child, ...]], head: Sequence[str], total: int) -> Markup | None:
    if not rows:
        return None
    left = total - FIRST_PROBLEMS - len(rows)
    rest = el("p", f"and {left} more: see ", link("api/v1/state", "the state"), class_="quiet") if left > 0 else None
    shown = table("More problems", head, rows, text_columns=4, class_="problems")
    return el("details", el("summary", f"{total - FIRST_PROBLEMS} more"), shown, rest, id="problems-rest")


def _row(view: View, problem: ProblemState) -> tuple[Child, ...]:
    whole_pool = problem.target is None and problem.pool is not None
    name = problem.code.replace("_", " ")
    address = _runbook(view, alert_rule(problem.code, whole_pool=whole_pool).name)
    process = problem.process if problem.process and problem.process not in problem.text else None
    where = [
        problem.target or problem.pool or "system",
        f"engine {problem.engine}" if problem.engine else None,
        process,
    ]
    return (
        badge(problem.severity, SEVERITIES[problem.severity]),
        link(address, name, rel="noreferrer") if address and problem.severity != "info" else name,
        ", ".join(each for each in where if each),
        problem.text,
        duration(view.now - problem.since),
    )
