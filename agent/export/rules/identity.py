"""What an alert is called, how long it holds, where its links lead. In: configuration, objectives, problem codes. Out:
the fixed parts of an alert.

Names, hold times and boards are those of the alerts that pdwatch sends itself (`verdicts/alert_rules.py`), and the
labels are the contract's: whichever way an incident is sent, it has one identity, and nothing in it changes meanwhile.
"""

from __future__ import annotations

from agent.config import Config, Objective
from agent.export.rules.model import Severity
from agent.export.rules.promql import matchers
from agent.verdicts.alert_rules import ALERT_RULES, POOL_UNREACHABLE, AlertRule, Board, Grouping

DEAD_MAN = "dead_man"
AGENT_DOWN = "agent_down"
TARGET_FLAPS = "target_flaps"
NO_DATA_ALERT = "PDWatchNoData"

_OWN = (
    AlertRule("PDWatchDeadMan", "system", 0.0, 0.0, "overview", "The way from Prometheus to people works."),
    AlertRule("PDWatchAgentDown", "system", 120.0, 120.0, "overview", "pdwatch is gone, or sees nothing new."),
    AlertRule("PDWatchTargetFlaps", "target", 300.0, 900.0, "overview", "Scrapes of a target fail again and again."),
)
OWN_RULES = dict(zip((DEAD_MAN, AGENT_DOWN, TARGET_FLAPS), _OWN, strict=True))
"""What only Prometheus can say: pdwatch does not send these itself."""

SUBJECTS: dict[Grouping, tuple[str, ...]] = {
    "system": (),
    "pool": (),
    "target": ("target",),
    "engine": ("target", "engine"),
    "process": ("target", "engine", "process"),
}
"""What an alert is about -> the labels that name it beside its scope."""


def rule_of(code: str, *, whole_pool: bool = False) -> AlertRule:
    """The fixed parts of a problem's alert."""
    return OWN_RULES.get(code) or ALERT_RULES[POOL_UNREACHABLE if code == "unreachable" and whole_pool else code]


class Identity:
    """Labels and links of one deployment's alerts. `boards`: what the names of this family's boards begin with."""

    def __init__(self, config: Config, boards: str = "") -> None:
        self._deployment = config.deployment
        self._extra = dict(config.alerting.labels)
        self._runbooks = config.links.runbooks
        self._dashboards = config.links.dashboards
        self._boards = boards

    @property
    def deployment(self) -> dict[str, str]:
        """The label of the deployment; none where it has no name."""
        return {"deployment": self._deployment} if self._deployment is not None else {}

    def of_code(self, code: str, severity: Severity | None, scope: str | None) -> dict[str, str]:
        """Static labels of a problem's alert. None: the expression gives that label."""
        labels = self._extra | self.deployment
        if severity is not None:
            labels["severity"] = severity
        if scope is not None:
            labels["scope"] = scope
        return labels | {"code": code}

    def of_objective(self, objective: Objective, severity: Severity) -> dict[str, str]:
        """Static labels of an objective's alerts: all there are."""
        named = {"severity": severity, "scope": objective.scope, "objective": objective.name}
        return self._extra | self.deployment | named

    def firing(self, code: str, scope: str | None = None) -> str:
        """PromQL: a problem's alerts that fire, of one pool or of all; with the labels of what each is about."""
        named = {"alertname": rule_of(code).name, "alertstate": "firing", **self.deployment}
        return f"ALERTS{{{matchers(**named, scope=scope)}}}"

    def runbook(self, alert: str) -> str:
        """The alert's section of the runbooks; beside the rules where no base is configured."""
        return f"{self._runbooks or 'runbooks.md'}#{alert.lower()}"

    def dashboard(self, board: Board) -> str:
        """The board's address; on the Grafana that is looked at where no base is configured."""
        return f"{(self._dashboards or '').rstrip('/')}/d/pdwatch-{self._boards}{board}"


def board_of(objective: Objective) -> Board:
    """The board that shows an objective's indicator."""
    if objective.indicator in ("tpot", "tpot_token", "itl", "decode", "acceptance_length"):
        return "decode"
    if objective.indicator == "kv_transfer":
        return "kv-transfer"
    return "prefill" if objective.indicator == "prefill" else "overview"
