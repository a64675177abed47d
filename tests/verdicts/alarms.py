"""Deployments, verdicts and problems built by hand, for the tests of what becomes an alert."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from agent.config import Alerting, Config, Links, Objective, config_from_names
from agent.state import ProblemState, VerdictState

T = 1_700_000_000.0
STEP = 10.0


def deployment(*objectives: Objective, mode: Literal["central", "sidecar"] = "central") -> Config:
    """Two prefill servers and one decode server called `glm`."""
    config = config_from_names({"prefill-0", "prefill-1", "decode-0"})
    return replace(
        config,
        deployment="glm",
        mode=mode,
        objectives=objectives or config.objectives,
        alerting=Alerting(labels=(("cluster", "west"),)),
        links=Links(runbooks="https://docs.example/runbooks.md", dashboards="https://grafana.example"),
    )


def verdict(
    objective: str = "tpot",
    scope: str = "decode",
    status: Literal["ok", "pending", "firing", "resolved"] = "firing",
    cause: str | None = None,
    since: float = T,
) -> VerdictState:
    """What an objective's judgement looks like in the state."""
    told = None if cause is None else {"code": cause, "text": f"because of {cause}"}
    word: Literal["met", "breached"] = "breached" if status == "firing" else "met"
    return VerdictState(objective, scope, word, status, since, "request_mean", 0.03, 0.03, 0.03, 0.02, 100, told)


def problem(
    code: str,
    pool: str | None = "decode",
    target: str | None = None,
    engine: str | None = None,
    severity: Literal["critical", "warning", "info"] = "warning",
    text: str = "",
) -> ProblemState:
    """A problem as the state shows it."""
    return ProblemState(code, target, T, text or f"{code} at {target or pool}", severity, pool, engine)


def frozen(engine: str = "0") -> ProblemState:
    """A frozen engine of the decode server."""
    return problem("engine_frozen", target="decode-0", engine=engine, severity="critical")
