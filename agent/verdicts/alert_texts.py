"""What an alert says. In: an objective with its verdict, a budget's tiers, or a problem. Out: labels and annotations.

Labels name the matter and never a number; annotations are sentences for the person who is woken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.config import Config, Objective
from agent.state import VerdictState
from agent.verdicts.alert_rules import BUDGET_ALERT, OBJECTIVE_ALERT, Board
from agent.verdicts.budgets import BudgetState, TierState
from agent.verdicts.phrases import amount, over, promised, subject
from agent.verdicts.problem_walks import Standing

MOST_CHARACTERS = 4000
"""Of one annotation: more is read by nobody and refused by some receivers."""


class AlertTexts:
    """Texts for one deployment's alerts."""

    def __init__(self, config: Config) -> None:
        self._deployment = config.deployment
        self._labels = dict(config.alerting.labels)
        self._runbooks, self._dashboards = config.links.runbooks, config.links.dashboards

    def objective_labels(self, objective: Objective) -> dict[str, str]:
        return self._named(OBJECTIVE_ALERT, "critical", scope=objective.scope, objective=objective.name)

    def budget_labels(self, objective: Objective, severity: str) -> dict[str, str]:
        return self._named(BUDGET_ALERT, severity, scope=objective.scope, objective=objective.name)

    def problem_labels(self, standing: Standing) -> dict[str, str]:
        key = standing.key
        about = {"target": key.target, "engine": key.engine, "process": key.process}
        return self._named(standing.rule.name, key.severity, scope=key.scope, code=key.code, **about)

    def objective_annotations(self, objective: Objective, verdict: VerdictState, text: str) -> dict[str, str]:
        """`text`: the verdict's own sentence, "" where there is none."""
        said = text or (
            f"{subject(objective)} is {amount(verdict.value, objective.unit)} {over(objective)}, {promised(objective)}"
        )
        cause = verdict.cause.get("text") if verdict.cause else None
        return self._annotations(
            OBJECTIVE_ALERT, _board_of(objective), f"A promise is broken: {subject(objective)}.", said, str(cause or "")
        )

    def budget_annotations(self, objective: Objective, tiers: Sequence[TierState]) -> dict[str, str]:
        said = "; ".join(f"tier {state.tier.name} {state.tier.says}" for state in tiers)
        summary = f"The error budget burns too fast: {subject(objective)}."
        return self._annotations(BUDGET_ALERT, _board_of(objective), summary, said, "")

    def problem_annotations(self, standing: Standing) -> dict[str, str]:
        return self._annotations(standing.rule.name, standing.rule.board, standing.rule.summary, standing.text, "")

    def _named(self, name: str, severity: str, **about: str) -> dict[str, str]:
        labels = {"alertname": name, "severity": severity, "deployment": self._deployment or "", **about}
        return {**self._labels, **{label: value for label, value in labels.items() if value}}

    def _annotations(self, name: str, board: Board, summary: str, description: str, cause: str) -> dict[str, str]:
        texts = {"summary": summary, "description": _sentence(description), "cause": cause}
        if self._runbooks:
            texts["runbook_url"] = f"{self._runbooks}#{name.lower()}"
        if self._dashboards:
            texts["dashboard_url"] = f"{self._dashboards.rstrip('/')}/d/pdwatch-{board}"
        return {label: text[:MOST_CHARACTERS] for label, text in texts.items() if text}


def firing_tiers(state: BudgetState) -> Mapping[str, list[TierState]]:
    """Severity -> its tiers that fire."""
    found: dict[str, list[TierState]] = {}
    for tier in state.tiers:
        if tier.status == "firing":
            found.setdefault(tier.tier.severity, []).append(tier)
    return found


def with_attached(annotations: Mapping[str, str], attached: Sequence[str]) -> dict[str, str]:
    """The same with what else stands and belongs to the incident, under `cause`."""
    if not attached:
        return dict(annotations)
    cause = annotations.get("cause", "")
    joined = "; ".join([cause, *attached] if cause else attached)
    return {**annotations, "cause": joined[:MOST_CHARACTERS]}


def _board_of(objective: Objective) -> Board:
    if objective.indicator in ("tpot", "tpot_token", "itl", "decode", "acceptance_length"):
        return "decode"
    if objective.indicator == "kv_transfer":
        return "kv-transfer"
    return "prefill" if objective.indicator == "prefill" else "overview"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
