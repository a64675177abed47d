"""Alerts as Grafana manages them. In: a family. Out: a provisioning file of alert rules.

Grafana evaluates the alerts and Prometheus the recordings, so the family's recording rules must be loaded there. What
Prometheus does with ALERTS, Grafana has of its own: a recovery threshold, and "keep last state" without data. The name
of an alert is its title there, so these are alerts of their own identity: page by them alone.
"""

from __future__ import annotations

import hashlib
from typing import Any

from agent.config import Config
from agent.export.rules.model import Alert, Family, Group
from agent.export.rules.promql import span
from agent.export.rules.texts import grafana_template, texts_of
from agent.export.rules.yaml_text import commented, dumped

NOTE = (
    "Grafana-managed alert rules, for provisioning (conf/provisioning/alerting/). Made by `pdwatch export alerts`.",
    "Needs: a Prometheus data source with uid `prometheus`, and this family's recording rules loaded there.",
    "Grafana 12 and later; an older one does not know keep_firing_for and ignores it.",
)
DATA_SOURCE_UID = "prometheus"
INTERVAL = "30s"
LOOK_BACK_SECONDS = 600


def alert_rule_file(family: Family, config: Config) -> str:
    """All alerts of the family, one group of Grafana for each group of it that has any."""
    groups = []
    for group in family.groups:
        alerts = [rule for rule in group.rules if isinstance(rule, Alert)]
        if alerts:
            groups.append(_group(group, alerts, config))
    return commented([family.title, *NOTE]) + "\n" + dumped({"apiVersion": 1, "groups": groups})


def _group(group: Group, alerts: list[Alert], config: Config) -> dict[str, Any]:
    folder = "pdwatch" if config.deployment is None else f"pdwatch {config.deployment}"
    return {
        "orgId": 1,
        "name": group.name,
        "folder": folder,
        "interval": INTERVAL,
        "rules": [_rule(alert) for alert in alerts],
    }


def _rule(alert: Alert) -> dict[str, Any]:
    value: dict[str, Any] = {
        "uid": _uid(alert),
        "title": _title(alert),
        "condition": "B",
        "data": [_query(alert.expr if alert.level is None else alert.level.value), _condition(alert)],
        # No series is what "nothing is wrong" looks like; an objective's value that is gone decides nothing.
        "noDataState": "OK" if alert.level is None else "KeepLast",
        "execErrState": "KeepLast",
        "for": span(alert.hold_seconds),
    }
    if alert.keep_seconds:
        value["keep_firing_for"] = span(alert.keep_seconds)
    value["labels"] = dict(alert.labels)
    value["annotations"] = {name: grafana_template(alert, text) for name, text in texts_of(alert).items()}
    value["isPaused"] = False
    return value


def _query(expr: str) -> dict[str, Any]:
    model = {"refId": "A", "expr": expr, "instant": True, "range": False, "editorMode": "code"}
    return {
        "refId": "A",
        "relativeTimeRange": {"from": LOOK_BACK_SECONDS, "to": 0},
        "datasourceUid": DATA_SOURCE_UID,
        "model": model,
    }


def _condition(alert: Alert) -> dict[str, Any]:
    """Any number is an alert, 0 included; or a threshold with a recovery threshold."""
    model: dict[str, Any] = {"refId": "B", "type": "math", "expression": "is_number($A)"}
    if alert.level is not None:
        beyond, back = ("gt", "lt") if alert.level.above else ("lt", "gt")
        condition = {
            "evaluator": {"type": beyond, "params": [float(alert.level.fires)]},
            "unloadEvaluator": {"type": back, "params": [float(alert.level.clears)]},
        }
        model = {"refId": "B", "type": "threshold", "expression": "A", "conditions": [condition]}
    return {
        "refId": "B",
        "relativeTimeRange": {"from": LOOK_BACK_SECONDS, "to": 0},
        "datasourceUid": "__expr__",
        "model": model,
    }


def _title(alert: Alert) -> str:
    """Grafana makes the title the label alertname and wants it once in a folder: it begins with the alert's name."""
    about = [alert.labels.get(name) for name in ("scope", "objective", "severity")]
    by = f"by {'/'.join(alert.subjects)}" if alert.subjects else None
    return " ".join(filter(None, [alert.name, *about, by]))


def _uid(alert: Alert) -> str:
    """The same for the same alert in every export; at most 40 characters, as Grafana wants it."""
    text = "\0".join(f"{name}={value}" for name, value in sorted(alert.labels.items())) + "\0" + _title(alert)
    return "pdwatch-" + hashlib.sha256(text.encode()).hexdigest()[:24]
