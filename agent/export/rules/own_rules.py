"""Rules on pdwatch's own metrics. In: the configuration. Out: alerts on what pdwatch has judged.

pdwatch has judged already, with bounds, prompt lengths, grace and hold times: here only stands how the judgement
reaches people through Prometheus. A problem's hold time runs here, an objective's has run in pdwatch. The cause enters
an annotation; as a label it would change the alert's identity.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.catalogue import HISTOGRAMS, LATENCIES
from agent.config import Config, Objective
from agent.export.rules.identity import AGENT_DOWN, NO_DATA_ALERT, SUBJECTS, TARGET_FLAPS, Identity, board_of, rule_of
from agent.export.rules.legs import NOT_ON_PREFILL
from agent.export.rules.model import Alert, Asked, Recording
from agent.export.rules.pdwatch_names import own_metric
from agent.export.rules.pdwatch_source import PdwatchSource
from agent.export.rules.promql import all_of, any_of, number, span
from agent.export.rules.thresholds import FLAP_SECONDS, FLAP_UP_RATIO, WINDOW_SECONDS, gap_seconds
from agent.export.rules.watch import watch_alert
from agent.export.rules.wording import value_format
from agent.verdicts.alert_rules import ALERT_RULES, OBJECTIVE_ALERT, POOL_UNREACHABLE
from agent.verdicts.phrases import over, promised, subject

MOST_LOOKBACK_SECONDS = 120.0
NO_HOLD_LOOKBACK_SECONDS = 60.0


class OwnRules:
    """All rules on what pdwatch exports."""

    def __init__(self, config: Config, source: PdwatchSource, identity: Identity) -> None:
        self._config, self._source, self._identity = config, source, identity

    def agent_down(self) -> Alert:
        """The watch itself is gone: nothing below can fire."""
        gone = f"max(absent({own_metric('build_info')}{self._source.selector()}))"
        seen = f"sum(increase({own_metric('agent_observations_total')}{self._source.selector()}[5m]))"
        return watch_alert(
            self._identity,
            AGENT_DOWN,
            "system",
            any_of(gone, f"{seen} == 0"),
            severity="critical",
            description="pdwatch is not scraped, or has taken in nothing for 5m: no other alert of it can fire.",
            cause="Possible: the process is down, Prometheus cannot reach it, its labels were lost in relabelling.",
            says="fires after 2 min without pdwatch, or 7 min after the last observation",
        )

    def objectives(self) -> Iterator[Alert]:
        """For each objective: broken, and not judged at all."""
        for objective in self._config.objectives:
            yield self._breached(objective)
            yield self._unjudged(objective)

    def problems(self) -> Iterator[Alert]:
        """For each problem that can call somebody: one rule, whatever its severity."""
        for code in ALERT_RULES:
            if code != POOL_UNREACHABLE:
                yield self._problem(code, whole_pool=False)
            if code == "unreachable":
                yield self._problem(code, whole_pool=True)

    def flapping(self) -> Alert:
        """A target that answers now and then."""
        scrapes, failures = (
            f"sum by (pool, target) (increase({own_metric(name)}{self._source.selector()}[{span(FLAP_SECONDS)}]))"
            for name in ("target_scrapes_total", "target_scrape_failures_total")
        )
        up = f"max by (pool, target) (max_over_time({own_metric('target_up')}{self._source.selector()}[2m]))"
        share = all_of(
            f"{scrapes} / ({scrapes} + {failures} > 0) < {number(FLAP_UP_RATIO)}", f"{up} == 1", on=("pool", "target")
        )
        return watch_alert(
            self._identity,
            TARGET_FLAPS,
            None,
            f'max by (scope, target) (label_replace({share}, "scope", "$1", "pool", "(.*)"))',
            description="Only %value:percent% of the pages of target %target% of pool %scope% came.",
            cause="Possible: pages that take longer than the scrape timeout, a server at its limit, packet loss.",
            says=f"fires when under {number(FLAP_UP_RATIO * 100)} % of pages came over 15m while some do, held for 5m",
        )

    def recordings(self) -> Iterator[Recording]:
        """Means and 95th percentiles of the pools, for boards and for reading back."""
        for pool in self._config.pools:
            for indicator in HISTOGRAMS:
                if pool.role == "prefill" and indicator in NOT_ON_PREFILL:
                    continue
                total = self._source.total(indicator, (pool.name,), WINDOW_SECONDS)
                count = self._source.count(indicator, (pool.name,), WINDOW_SECONDS)
                labels = self._identity.deployment | {"pool": pool.name}
                name = f"pool:pdwatch_{LATENCIES[indicator][0]}_seconds"
                w = span(WINDOW_SECONDS)
                yield Recording(f"{name}:mean{w}", f"{total} / ({count} > 0)", labels)
                buckets = self._source.buckets(indicator, (pool.name,), WINDOW_SECONDS)
                yield Recording(f"{name}:p95_{w}", f"histogram_quantile(0.95, {buckets})", labels)

    def _breached(self, objective: Objective) -> Alert:
        about = {"objective": objective.name, "scope": objective.scope}
        status = f"{own_metric('objective_status')}{self._source.selector(**about, status='firing')}"
        value = f"{own_metric('objective_value')}{self._source.selector(**about)}"
        cause = f"{own_metric('cause_info')}{self._source.selector(**about)}"
        said = subject(objective)
        return Alert(
            OBJECTIVE_ALERT,
            f"max(max_over_time({status}[{span(NO_HOLD_LOOKBACK_SECONDS)}])) == 1",
            self._identity.of_objective(objective, "critical"),
            summary=f"A promise is broken: {said}.",
            description=f"{said[:1].upper()}{said[1:]} is %measured% {over(objective)}, {promised(objective)}.",
            runbook_url=self._identity.runbook(OBJECTIVE_ALERT),
            dashboard_url=self._identity.dashboard(board_of(objective)),
            cause="%cause%",
            keep_seconds=gap_seconds(self._config.scrape.interval_seconds),
            comments=("fires when pdwatch's own status does: hold, clear and hysteresis are the objective's",),
            asked=(
                Asked("measured", value, value_format(objective), "unknown"),
                Asked("cause", cause, "text", "not known"),
            ),
        )

    def _unjudged(self, objective: Objective) -> Alert:
        about = {"objective": objective.name, "scope": objective.scope}
        status = f"{own_metric('objective_status')}{self._source.selector(**about)}"
        present = f"count({own_metric('build_info')}{self._source.selector()})"
        return Alert(
            NO_DATA_ALERT,
            all_of(f"max(absent({status}))", present),
            self._identity.of_objective(objective, "warning"),
            summary="An objective cannot be judged although requests finish.",
            description=f"pdwatch does not know the objective: {subject(objective)}.",
            runbook_url=self._identity.runbook(NO_DATA_ALERT),
            dashboard_url=self._identity.dashboard("overview"),
            cause="Possible: pdwatch runs with another configuration than these rules were made from.",
            hold_seconds=300.0,
            keep_seconds=300.0,
            comments=("fires 5 min after pdwatch stopped exporting the objective",),
        )

    def _problem(self, code: str, *, whole_pool: bool) -> Alert:
        rule = rule_of(code, whole_pool=whole_pool)
        by = SUBJECTS[rule.by]
        scope = "system" if rule.by == "system" else None
        labels = ("severity", *(() if scope else ("scope",)), *by)
        # A target that is named makes it another problem than that of the whole pool.
        target = {"target": ""} if whole_pool else {"target": None}
        lookback = min(MOST_LOOKBACK_SECONDS, rule.hold_seconds / 2) or NO_HOLD_LOOKBACK_SECONDS
        wanted = self._source.selector(code=code, severity=("critical", "warning"), **target)
        if code == "unreachable" and not whole_pool:
            wanted = wanted[:-1] + ',target!=""}'
        series = f"{own_metric('problem')}{wanted}"
        where = {
            "system": "",
            "pool": " of pool %scope%",
            "target": " of target %target% (%scope%)",
            "engine": " of engine %engine% of target %target% (%scope%)",
            "process": " of %process% on target %target% (%scope%)",
        }[rule.by]
        held = "at once" if not rule.hold_seconds else f"after {number(rule.hold_seconds / 60)} min"
        return watch_alert(
            self._identity,
            code,
            scope,
            f"max by ({', '.join(labels)}) (max_over_time({series}[{span(lookback)}]))",
            # On an engine that is told as frozen, requests wait for it and not for KV: that is one incident.
            behind=self._identity.firing("engine_frozen") if code == "kv_stalled" else "",
            severity=None,
            description=f"pdwatch reports {code}{where}; its numbers are on pdwatch's own page.",
            whole_pool=whole_pool,
            says=f"fires {held} while pdwatch reports {code} as critical or warning",
        )
