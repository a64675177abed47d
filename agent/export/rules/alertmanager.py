"""An example configuration of Alertmanager. In: the configuration. Out: routes, receivers and inhibitions as text.

Critical pages, warning is a ticket, info goes nowhere, the dead man's switch goes to whoever misses it. What belongs to
one incident reaches a person once: a deployment's pages are one group, and causes wait behind the broken promise.
"""

from __future__ import annotations

from typing import Any

from agent.config import Config, Objective
from agent.export.rules.identity import DEAD_MAN, rule_of
from agent.export.rules.yaml_text import commented, dumped
from agent.verdicts.alert_rules import BUDGET_ALERT, OBJECTIVE_ALERT, POOL_UNREACHABLE, alert_rule
from agent.verdicts.explains import FOLLOWS, INDICATORS

NOTE = (
    "Example for Alertmanager 0.25 and later; made by `pdwatch export alerts`. Put in your own receivers.",
    "One way pages at a time (alerting.path): pdwatch or Prometheus, never both, would send to this Alertmanager.",
)
CRITICAL_CODES = ("unreachable", "engine_frozen", "kv_stalled", "errors_high", "oom_imminent", "memory_leak")
"""Problems that page and bring others with them."""
HERE = "http://127.0.0.1:9/"
"""Nobody listens there: an example must not post to a stranger."""


def alertmanager_file(config: Config) -> str:
    """The whole example."""
    return commented(NOTE) + "\n" + dumped(_value(config))


def _value(config: Config) -> dict[str, Any]:
    return {
        "route": {
            "receiver": "nobody",
            "group_by": ["alertname", "deployment", "scope"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
            "routes": [
                {
                    "receiver": "heartbeat",
                    "matchers": [f'alertname="{rule_of(DEAD_MAN).name}"'],
                    "group_by": ["deployment"],
                    "group_wait": "0s",
                    "group_interval": "1m",
                    "repeat_interval": "1m",
                },
                {
                    "receiver": "pager",
                    "matchers": ['alertname=~"PDWatch.+"', 'severity="critical"'],
                    "group_by": ["deployment"],
                    "group_wait": "10s",
                },
                {"receiver": "tickets", "matchers": ['alertname=~"PDWatch.+"', 'severity="warning"']},
            ],
        },
        "inhibit_rules": _inhibitions(config),
        "receivers": [
            {"name": "nobody"},
            {"name": "pager", "webhook_configs": [{"url": f"{HERE}pager", "send_resolved": True}]},
            {"name": "tickets", "webhook_configs": [{"url": f"{HERE}tickets", "send_resolved": True}]},
            {"name": "heartbeat", "webhook_configs": [{"url": f"{HERE}heartbeat", "send_resolved": False}]},
        ],
    }


def _inhibitions(config: Config) -> list[dict[str, Any]]:
    return [
        *(_behind_objective(objective) for objective in config.objectives),
        {
            # Several tiers and severities of one budget, and the promise itself, are one incident.
            "source_matchers": [f'alertname="{OBJECTIVE_ALERT}"'],
            "target_matchers": [f'alertname="{BUDGET_ALERT}"'],
            "equal": ["deployment", "scope", "objective"],
        },
        {
            "source_matchers": [f'alertname="{BUDGET_ALERT}"', 'severity="critical"'],
            "target_matchers": [f'alertname="{BUDGET_ALERT}"', 'severity="warning"'],
            "equal": ["deployment", "scope", "objective"],
        },
        {
            "source_matchers": [f'alertname="{alert_rule(POOL_UNREACHABLE).name}"'],
            "target_matchers": [f'alertname="{alert_rule("unreachable").name}"'],
            "equal": ["deployment", "scope"],
        },
        *(_behind_problem(code, FOLLOWS[code]) for code in CRITICAL_CODES),
    ]


def _behind_objective(objective: Objective) -> dict[str, Any]:
    """Warnings that may be the cause of a broken promise are told with it, not beside it."""
    codes = "|".join(sorted(INDICATORS[objective.indicator]))
    return {
        "source_matchers": [f'alertname="{OBJECTIVE_ALERT}"', f'objective="{objective.name}"'],
        "target_matchers": ['severity="warning"', f'code=~"{codes}"'],
        "equal": ["deployment"],
    }


def _behind_problem(code: str, followers: frozenset[str]) -> dict[str, Any]:
    """Warnings that follow from a problem. A code never stands on both sides, or it would mute itself."""
    codes = "|".join(sorted(followers - {code}))
    return {
        "source_matchers": [f'code="{code}"', 'severity="critical"'],
        "target_matchers": ['severity="warning"', f'code=~"{codes}"'],
        "equal": ["deployment"],
    }
