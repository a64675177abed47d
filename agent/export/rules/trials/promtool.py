"""Trials as a test file of promtool. In: trials. Out: text.

What fires is checked twice: the list of ALERTS, which names every label and everything that fires; and where the texts
are known, the alert itself with its annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.export.rules.identity import DEAD_MAN, rule_of
from agent.export.rules.promql import matchers, span
from agent.export.rules.texts import finished, texts_of
from agent.export.rules.trials.model import Check, Fired, Trial
from agent.export.rules.yaml_text import commented, dumped

FIRING = f'ALERTS{{alertstate="firing",alertname!="{rule_of(DEAD_MAN).name}"}}'


def trial_file(trials: Sequence[Trial], rule_file: str, step_seconds: float, says: str) -> str:
    """One test file; all trials have one evaluation interval."""
    head = {
        "rule_files": [rule_file],
        "evaluation_interval": span(step_seconds),
        "tests": [_test(one) for one in trials],
    }
    return commented([says, f"promtool test rules {rule_file.replace('.yml', '_test.yml')}"]) + "\n" + dumped(head)


def _test(trial: Trial) -> dict[str, Any]:
    told = [_told(check, fired) for check in trial.checks for fired in check.fired if fired.told is not None]
    value: dict[str, Any] = {
        "name": trial.name,
        "interval": span(trial.step_seconds),
        "input_series": [{"series": series, "values": values} for series, values in trial.series.items()],
        "promql_expr_test": [_list(check) for check in trial.checks],
    }
    return value | ({"alert_rule_test": told} if told else {})


def _list(check: Check) -> dict[str, Any]:
    return {
        "expr": FIRING,
        "eval_time": _at(check),
        "exp_samples": [{"labels": _alerts_series(fired), "value": 1} for fired in check.fired],
    }


def _alerts_series(fired: Fired) -> str:
    labels = {"alertname": fired.alert.name, "alertstate": "firing", **fired.labels}
    return "ALERTS{" + matchers(**labels) + "}"


def _told(check: Check, fired: Fired) -> dict[str, Any]:
    same_name = [other for other in check.fired if other.alert.name == fired.alert.name]
    return {
        "eval_time": _at(check),
        "alertname": fired.alert.name,
        "exp_alerts": [
            {
                "exp_labels": other.labels,
                "exp_annotations": {
                    name: finished(text, other.told or {}) for name, text in texts_of(other.alert).items()
                },
            }
            for other in same_name
        ],
    }


def _at(check: Check) -> str:
    return f"{round(check.at_seconds)}s"
