"""Trials of the rules on pdwatch's metrics. In: the configuration. Out: trials, with every fourth scrape missing.

Every problem that can call somebody is played at once: each has a rule of its own, so that only its own may fire by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.config import Config, Objective
from agent.export.rules.families import pdwatch_family
from agent.export.rules.identity import AGENT_DOWN, NO_DATA_ALERT, TARGET_FLAPS, rule_of
from agent.export.rules.pdwatch_names import own_metric
from agent.export.rules.promql import matchers
from agent.export.rules.trials.model import Check, Fired, Trial
from agent.export.rules.trials.stage import STEP_SECONDS, Stage
from agent.verdicts.alert_rules import ALERT_RULES, OBJECTIVE_ALERT, POOL_UNREACHABLE

QUIET = 8
STANDS = int(max(rule.hold_seconds for rule in ALERT_RULES.values()) / STEP_SECONDS) + 6
AFTER = int(max(rule.clear_seconds for rule in ALERT_RULES.values()) / STEP_SECONDS) + 6
CAUSE = "steps 12 ms -> 21 ms at the same load"


def pdwatch_trials(config: Config) -> tuple[Trial, ...]:
    """All trials with steps of half a minute."""
    trials = _Trials(config)
    found = (trials.problems(), trials.short_and_slight(), trials.objectives(), trials.agent_down(), trials.flapping())
    return tuple(trial for trial in found if trial is not None)


class _Trials:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._stage = Stage(config, pdwatch_family(config))
        self._pool = config.pools[-1]
        self._target = self._stage.target(self._pool)

    def problems(self) -> Trial:
        """All at once for some minutes: first those without a hold time, then all; at last none."""
        series = self._running(QUIET + STANDS + AFTER)
        fired: list[Fired] = []
        for code, rule in ALERT_RULES.items():
            whole = code == POOL_UNREACHABLE
            shown = "unreachable" if whole else code
            # Stalled KV of a frozen engine is no alert of its own: that of another engine is.
            engine = "1" if code == "kv_stalled" else "0"
            about = {"target": "" if whole else self._target, "engine": "" if whole else engine}
            scope = "system" if rule.by == "system" else self._pool.name
            values = f"_x{QUIET} {_blinking(STANDS)} _x{AFTER}"
            series[self._problem(shown, "warning", **about)] = values
            labels = {"severity": "warning", "scope": scope, "code": shown}
            if rule.by in ("target", "engine", "process"):
                labels["target"] = self._target
            if rule.by in ("engine", "process"):
                labels["engine"] = engine
            fired.append(self._fired(rule_of(shown, whole_pool=whole).name, labels))
        behind = f"_x{QUIET + 2} {_blinking(STANDS - 2)} _x{AFTER}"
        series[self._problem("kv_stalled", "warning", target=self._target, engine="0")] = behind
        at_once = tuple(one for one in fired if not one.alert.hold_seconds)
        checks = (
            Check((QUIET - 1) * STEP_SECONDS),
            Check((QUIET + 1) * STEP_SECONDS, at_once),
            Check((QUIET + STANDS - 1) * STEP_SECONDS, tuple(fired)),
            Check((QUIET + STANDS + AFTER - 1) * STEP_SECONDS),
        )
        return Trial("every problem, each with its own alert", series, checks)

    def short_and_slight(self) -> Trial:
        """Problems that stand less than their hold time, or that only explain."""
        series = self._running(40)
        for code, rule in ALERT_RULES.items():
            shown = "unreachable" if code == POOL_UNREACHABLE else code
            about = {"target": "" if code == POOL_UNREACHABLE else self._target, "engine": ""}
            series[self._problem(shown, "info", **about)] = "1x39"
            if rule.hold_seconds >= 120:
                series[self._problem(shown, "warning", **about)] = f"_x{QUIET} 1 _x31"
        return Trial("problems too short or too slight to call anybody", series, (Check(300), Check(600), Check(1170)))

    def objectives(self) -> Trial | None:
        """Broken promises with their cause, and then a pdwatch that does not know them any more."""
        if not self._config.objectives:
            return None
        whole = QUIET + STANDS + 12 + 28
        series = self._running(whole)
        broken, lost = [], []
        for objective in self._config.objectives:
            about = {"objective": objective.name, "scope": objective.scope}
            series[self._series("objective_status", **about, status="ok")] = f"1x{QUIET - 1} _x{STANDS} 1x11 _x28"
            series[self._series("objective_status", **about, status="firing")] = f"_x{QUIET} {_blinking(STANDS)} _x40"
            series[self._series("objective_value", **about)] = f"{_value(objective)}x{whole - 29} _x28"
            told = self._series("cause_info", **about, code="graph_fallback", text=CAUSE)
            series[told] = f"_x{QUIET} {_blinking(STANDS)} _x40"
            shown = {"measured": _shown(objective), "cause": CAUSE}
            broken.append(self._stage.fired(OBJECTIVE_ALERT, shown, **about))
            lost.append(self._stage.fired(NO_DATA_ALERT, {}, **about))
        end = (QUIET + STANDS) * STEP_SECONDS
        checks = (
            Check((QUIET - 1) * STEP_SECONDS),
            Check(end - 2 * STEP_SECONDS, tuple(broken)),
            Check(end + 11 * STEP_SECONDS),
            Check((whole - 1) * STEP_SECONDS, tuple(lost)),
        )
        return Trial(f"objectives: {OBJECTIVE_ALERT}, {NO_DATA_ALERT}", series, checks)

    def agent_down(self) -> Trial:
        """Pdwatch hangs, comes back with counters at 0, and is gone."""
        rule = rule_of(AGENT_DOWN)
        fired = (self._stage.fired(rule.name, {}, scope="system"),)
        info, seen = self._series("build_info", version="1", python="3.11"), self._series("agent_observations_total")
        series = self._statuses("1x79 _x20")
        series[info] = "1x79 _x20"
        series[seen] = "5+5x19 100x29 5+5x29 _x20"
        checks = (Check(19 * 30), Check(24 * 30), Check(49 * 30, fired), Check(70 * 30), Check(98 * 30, fired))
        return Trial(f"pdwatch hangs, then is gone: {rule.name}", series, checks)

    def flapping(self) -> Trial:
        rule = rule_of(TARGET_FLAPS)
        series = self._running(180)
        about = {"pool": self._pool.name, "target": self._target}
        series[self._series("target_up", **about)] = "1x179"
        series[self._series("target_scrapes_total", **about)] = "6+6x39 244+4x39 0+6x99"
        series[self._series("target_scrape_failures_total", **about, reason="timeout")] = "0x39 2+2x39 0x99"
        fired = self._fired(rule.name, {"scope": self._pool.name, "target": self._target, "code": TARGET_FLAPS})
        checks = (Check(39 * 30), Check(79 * 30, (fired,)), Check(179 * 30))
        return Trial(f"pages fail now and then: {rule.name}", series, checks)

    def _running(self, steps: int) -> dict[str, str]:
        """A pdwatch that runs and finds every promise kept."""
        return {
            self._series("build_info", version="1", python="3.11"): f"1x{steps - 1}",
            self._series("agent_observations_total"): f"5+5x{steps - 1}",
            **self._statuses(f"1x{steps - 1}"),
        }

    def _statuses(self, values: str) -> dict[str, str]:
        return {
            self._series("objective_status", objective=one.name, scope=one.scope, status="ok"): values
            for one in self._config.objectives
        }

    def _problem(self, code: str, severity: str, target: str, engine: str) -> str:
        about = {"code": code, "severity": severity, "scope": self._pool.name, "target": target or None}
        return self._series("problem", **about, engine=engine or None)

    def _series(self, name: str, **labels: str | None) -> str:
        own = {"deployment": self._config.deployment, "instance": "127.0.0.1:9838", "job": "pdwatch", **labels}
        return f"{own_metric(name)}{{{matchers(**own)}}}"

    def _fired(self, name: str, labels: Mapping[str, str]) -> Fired:
        """The alert of a rule that takes labels from its expression which others have as their own."""
        code = labels["code"]
        alert = self._stage.alert(name, code=code)
        return Fired(alert, {label: value for label, value in labels.items() if label not in alert.labels})


def _blinking(steps: int) -> str:
    return " ".join("_" if step % 4 == 3 else "1" for step in range(steps))


def _value(objective: Objective) -> str:
    return "0.5" if _is_share(objective) else "0.25" if objective.unit == "seconds" else "1.5"


def _shown(objective: Objective) -> str:
    return "50%" if _is_share(objective) else "250ms" if objective.unit == "seconds" else "1.5"


def _is_share(objective: Objective) -> bool:
    return objective.statistic != "mean" or objective.indicator == "errors"
