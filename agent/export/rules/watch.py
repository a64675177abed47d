"""How a watch rule becomes an alert. In: a problem code, its scope, a condition. Out: the alert with all its parts.

Name, summary, hold and clear times and board are the problem's own (`identity.rule_of`); a rule adds its condition, a
description with labels and value, and what usually lies behind it.
"""

from __future__ import annotations

from agent.export.rules.identity import SUBJECTS, Identity, rule_of
from agent.export.rules.model import Alert, Severity


def watch_alert(
    identity: Identity,
    code: str,
    scope: str | None,
    expr: str,
    *,
    description: str,
    says: str,
    severity: Severity | None = "warning",
    cause: str = "",
    whole_pool: bool = False,
    held_seconds: float = 0.0,
    keep_seconds: float | None = None,
    behind: str = "",
) -> Alert:
    """`says`: when it fires, as a comment; `held_seconds`: how much of the hold time the condition itself covers."""
    rule = rule_of(code, whole_pool=whole_pool)
    return Alert(
        rule.name,
        expr,
        identity.of_code(code, severity, scope),
        summary=rule.summary,
        description=description,
        runbook_url=identity.runbook(rule.name),
        dashboard_url=identity.dashboard(rule.board),
        cause=cause,
        hold_seconds=max(0.0, rule.hold_seconds - held_seconds),
        keep_seconds=rule.clear_seconds if keep_seconds is None else keep_seconds,
        comments=(says,),
        subjects=SUBJECTS[rule.by],
        behind=behind,
    )
