"""Texts of an alert in the language of who tells it. In: a text with `%token%`. Out: a template, or the finished text.

`%target%` and other labels, `%value%`, `%value:seconds%`, `%value:percent%`, and what an alert has `asked` for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.export.rules.model import Alert

_TOKEN = re.compile(r"%([a-z]+)(?::([a-z]+))?%")
_FUNCTIONS = {"seconds": "humanizeDuration", "percent": "humanizePercentage", "number": "humanize", "": "humanize"}


def texts_of(alert: Alert) -> dict[str, str]:
    """All annotations of an alert, with tokens; empty ones are left out."""
    texts = {
        "summary": alert.summary,
        "description": alert.description.strip(),
        "cause": alert.cause,
        "runbook_url": alert.runbook_url,
        "dashboard_url": alert.dashboard_url,
    }
    return {name: text for name, text in texts.items() if text}


def prometheus_template(alert: Alert, text: str) -> str:
    """The text as a template of Prometheus."""
    asked = {one.token: one for one in alert.asked}

    def replace(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        if name == "value":
            return "{{ $value | " + _FUNCTIONS[form] + " }}"
        if name not in asked:
            return "{{ $labels." + name + " }}"
        one = asked[name]
        query = one.query.replace("\\", "\\\\").replace('"', '\\"')
        shown = ' | first | label "text"' if one.form == "text" else " | first | value | " + _FUNCTIONS[one.form]
        return '{{ with query "' + query + '" }}{{ .' + shown + " }}{{ else }}" + one.otherwise + "{{ end }}"

    return _TOKEN.sub(replace, text)


def grafana_template(alert: Alert, text: str) -> str:
    """The text as a template of Grafana, which cannot ask queries in it."""
    asked = {one.token: one for one in alert.asked}

    def replace(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        if name == "value":
            return "{{ " + _FUNCTIONS[form] + " $values.A.Value }}"
        return "shown by pdwatch" if name in asked else "{{ $labels." + name + " }}"

    return _TOKEN.sub(replace, text)


def finished(text: str, tokens: Mapping[str, str]) -> str:
    """The text with every token replaced by what Prometheus will have put there: what a test expects."""
    return _TOKEN.sub(lambda match: tokens[match[1]], text)
