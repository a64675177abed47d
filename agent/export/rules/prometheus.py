"""Rules as Prometheus has them. In: a family. Out: a rule file, or a PrometheusRule of Kubernetes, as text."""

from __future__ import annotations

import re
from typing import Any

from agent.config import Config
from agent.export.rules.model import Alert, Family, Group, Rule
from agent.export.rules.promql import span, unless
from agent.export.rules.texts import prometheus_template, texts_of
from agent.export.rules.yaml_text import below, commented, dumped, item

NOTE = (
    "Made by `pdwatch export alerts` from the configuration; do not edit it here.",
    "For Prometheus 2.42 and later. Load one family: both give alerts of the same identity.",
)


def rule_value(rule: Rule) -> dict[str, Any]:
    """One rule as a plain value."""
    if not isinstance(rule, Alert):
        recording: dict[str, Any] = {"record": rule.record, "expr": _block(rule.expr)}
        return recording | ({"labels": dict(rule.labels)} if rule.labels else {})
    expr = unless(rule.expr, rule.behind, on=rule.subjects) if rule.behind else rule.expr
    value: dict[str, Any] = {"alert": rule.name, "expr": _block(expr)}
    if rule.hold_seconds:
        value["for"] = span(rule.hold_seconds)
    if rule.keep_seconds:
        value["keep_firing_for"] = span(rule.keep_seconds)
    value["labels"] = dict(rule.labels)
    value["annotations"] = {name: prometheus_template(rule, text) for name, text in texts_of(rule).items()}
    return value


def rule_file(family: Family) -> str:
    """A rule file, with a comment on each alert that says when it fires."""
    return commented([family.title, *NOTE]) + "\ngroups:\n" + "\n".join(_group(group) for group in family.groups)


def kubernetes_rule(family: Family, config: Config) -> str:
    """The same as an object that the Prometheus operator loads, if its labels are those that it selects by."""
    name = "-".join(filter(None, ["pdwatch", _dns(config.deployment or ""), family.name]))
    head = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": name[:253],
            "labels": {
                "app.kubernetes.io/name": "pdwatch",
                "app.kubernetes.io/component": "rules",
                "prometheus": "k8s",
                "role": "alert-rules",
            },
        },
    }
    groups = "\n".join(_group(group) for group in family.groups)
    return commented([family.title, *NOTE]) + "\n" + dumped(head) + "spec:\n" + below("groups:\n" + groups, 2)


def _group(group: Group) -> str:
    head = below(commented(group.comments), 2) + f"  - name: {group.name}\n"
    if group.interval_seconds is not None:
        head += f"    interval: {span(group.interval_seconds)}\n"
    if not group.rules:
        return head + "    rules: []\n"
    rules = "\n".join(item(rule_value(rule), rule.comments) for rule in group.rules)
    return head + "    rules:\n" + below(rules, 6)


def _block(expr: str) -> str:
    """Several lines end with a line break, as a block does."""
    return expr + "\n" if "\n" in expr else expr


def _dns(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
