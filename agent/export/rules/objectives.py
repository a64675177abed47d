"""Objectives on vLLM's own metrics. In: the configuration. Out: for each objective its value, recorded, and its alert.

The arithmetic is the verdicts': legs whose means add up, shares between bucket edges, a live token mean where nothing
finishes, too few requests say nothing. What a rule cannot do is leave out requests outside the promised prompt lengths.
"""

from __future__ import annotations

from decimal import Decimal

from agent.burn import decimal_text
from agent.config import Config, Objective
from agent.export.rules.failures import error_share
from agent.export.rules.identity import NO_DATA_ALERT, Identity, board_of
from agent.export.rules.legs import Leg, counts, legs_of, mean, share_within
from agent.export.rules.model import Alert, Group, Level, Recording, Rule
from agent.export.rules.promql import all_of, any_of, matchers, number, span, unless
from agent.export.rules.thresholds import IN_FLIGHT_PART, STEPS_PER_REQUEST, gap_seconds
from agent.export.rules.vllm_source import VllmSource
from agent.export.rules.wording import POSSIBLE_CAUSES, value_format
from agent.verdicts.alert_rules import OBJECTIVE_ALERT
from agent.verdicts.phrases import amount, lengths, over, promised, subject

QUANTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99"}
KNOWN_SECONDS = 86400
"""How long an alert that fires goes on without data: no traffic neither fires nor clears."""
SUMS_WITH_UPTIME = frozenset({"queue", "prefill"})
BLIND_SECONDS = 600


class VllmObjectives:
    """The rules of all objectives of one configuration."""

    def __init__(self, config: Config, source: VllmSource, identity: Identity) -> None:
        self._config, self._source, self._identity = config, source, identity
        self._gap = span(gap_seconds(config.scrape.interval_seconds))

    def group(self) -> Group:
        """One group: every objective's recordings, then its alerts. Objectives that no rule can judge are comments."""
        rules: list[Rule] = []
        refused: list[str] = []
        for objective in self._config.objectives:
            found = self._rules(objective)
            if isinstance(found, str):
                refused.append(f"no rule for objective {objective.name} of {objective.scope}: {found}")
            else:
                rules += found
        return Group("pdwatch-objectives", tuple(rules), comments=tuple(refused))

    def _rules(self, objective: Objective) -> list[Rule] | str:
        legs = legs_of(objective, self._config)
        if not legs:
            return f"no pool there has {objective.indicator}"
        recordings = self._recordings(objective, legs)
        if not recordings:
            return f"no bucket edge is at or above {amount(objective.target, objective.unit)}: nothing can break it"
        return [*recordings, self._breached(objective, recordings), self._blind(objective, legs, recordings[-1])]

    # -- what is recorded ------------------------------------------------------------------------------------------

    def _recordings(self, objective: Objective, legs: tuple[Leg, ...]) -> list[Recording]:
        """The value alone, or `low` (where there is one) and `high`."""
        if objective.indicator == "errors":
            return self._errors(objective)
        if objective.statistic == "mean":
            return [self._recording(objective, f"mean{span(objective.window_seconds)}", self._mean(objective, legs))]
        enough = self._enough(objective, legs)
        found = []
        for side in ("low", "high"):
            share = share_within(
                legs,
                self._source,
                objective.window_seconds,
                Decimal(str(objective.target)),
                "low" if side == "low" else "high",
            )
            if share is not None:
                found.append(
                    self._recording(
                        objective, f"{side}{span(objective.window_seconds)}", all_of(share, *enough), "within_ratio"
                    )
                )
        return found if found and ":high" in found[-1].record else []

    def _recording(self, objective: Objective, operation: str, expr: str, what: str = "") -> Recording:
        what = what or {"ratio": "ratio", "tokens": "tokens"}.get(objective.unit, "seconds")
        return Recording(
            f"objective:vllm_{objective.indicator}_{what}:{operation}",
            expr,
            self._identity.deployment | {"objective": objective.name, "scope": objective.scope},
        )

    def _mean(self, objective: Objective, legs: tuple[Leg, ...]) -> str:
        match objective.indicator:
            case "tpot_token":
                return self._token_mean(objective, legs[0])
            case "acceptance_length":
                return self._acceptance(objective, legs[0])
            case "tpot":
                return any_of(
                    all_of(self._of_requests(objective, legs), *self._enough(objective, legs)),
                    self._tpot_from_decode_time(objective, legs[0]),
                    all_of(self._token_mean(objective, legs[0]), self._in_flight(objective, legs[0])),
                )
        value = all_of(self._of_requests(objective, legs), *self._enough(objective, legs))
        if any(leg.indicator in SUMS_WITH_UPTIME for leg in legs):
            # A failed request leaves the host's uptime in these sums, and means with it say nothing.
            pools = [pool for leg in legs for pool in leg.pools]
            failed = self._source.increase(
                "requests_finished", pools, objective.window_seconds, 'finished_reason=~"error|abort"'
            )
            value = unless(value, f"sum({failed}) > 0")
        return value

    def _of_requests(self, objective: Objective, legs: tuple[Leg, ...]) -> str:
        return mean(legs, self._source, objective.window_seconds) or "vector(0) < 0"

    def _enough(self, objective: Objective, legs: tuple[Leg, ...]) -> list[str]:
        each = objective.min_requests * (STEPS_PER_REQUEST if objective.indicator == "itl" else 1)
        return [f"{count} >= {each}" for count in counts(legs, self._source, objective.window_seconds)]

    def _summed(self, metric: str, leg: Leg, objective: Objective) -> str:
        return f"sum({self._source.increase(metric, leg.pools, objective.window_seconds)})"

    def _token_mean(self, objective: Objective, leg: Leg) -> str:
        """Decoding time over tokens after the first, finished or not."""
        steps, first = self._summed("itl_count", leg, objective), self._summed("ttft_count", leg, objective)
        value = f"{self._summed('itl_sum', leg, objective)} / "
        value += f"(({self._summed('generation_tokens', leg, objective)} - {first}) > 0)"
        return all_of(value, f"{steps} >= {objective.min_requests * STEPS_PER_REQUEST}")

    def _in_flight(self, objective: Objective, leg: Leg) -> str:
        """In a collapse many requests are under way and none ends; at night one slow request is."""
        running = self._source.gauge("avg_over_time", "running", leg.pools, objective.window_seconds)
        return f"sum({running}) >= {number(max(Decimal(2), IN_FLIGHT_PART * objective.min_requests))}"

    def _tpot_from_decode_time(self, objective: Objective, leg: Leg) -> str:
        """Before vLLM 0.11 no page has TPOT; decode time over tokens after the first is its mean over tokens."""
        tokens, requests = (
            self._summed(f"generation_tokens_histogram_{part}", leg, objective) for part in ("sum", "count")
        )
        value = f"{self._summed('decode_sum', leg, objective)} / (({tokens} - {requests}) > 0)"
        absent = self._source.increase("tpot_count", leg.pools, objective.window_seconds)
        return unless(all_of(value, f"{requests} >= {objective.min_requests}"), f"sum({absent})")

    def _acceptance(self, objective: Objective, leg: Leg) -> str:
        pools, w = self._source.selector(leg.pools), span(objective.window_seconds)
        drafts = f"sum(pool:vllm_spec_drafts:increase{w}{pools})"
        accepted = f"sum(pool:vllm_spec_accepted_tokens:increase{w}{pools})"
        value = f"1 + {accepted} / ({drafts} > 0)"
        return all_of(value, f"{drafts} >= {objective.min_requests * STEPS_PER_REQUEST}")

    def _errors(self, objective: Objective) -> list[Recording]:
        before, serving = self._error_pools(objective)
        found = []
        for side in ("low", "high"):
            share, of = error_share(
                self._source, before, serving, objective.window_seconds, "low" if side == "low" else "high"
            )
            enough = f"{of} >= {objective.min_requests}"
            found.append(self._recording(objective, f"{side}{span(objective.window_seconds)}", all_of(share, enough)))
        return found

    def _error_pools(self, objective: Objective) -> tuple[list[str], list[str]]:
        if objective.scope != "system":
            return [], [objective.scope]
        before = [pool.name for pool in self._config.pools if pool.role == "prefill"]
        return before, [pool.name for pool in self._config.pools if pool.role != "prefill"]

    # -- when it fires ---------------------------------------------------------------------------------------------

    def _breached(self, objective: Objective, recordings: list[Recording]) -> Alert:
        labels = self._identity.of_objective(objective, "critical")
        firing = f"ALERTS{{{matchers(alertname=OBJECTIVE_ALERT, alertstate='firing', **labels)}}}"
        level, near = self._levels(objective, recordings)
        sign = ">" if level.above else "<"
        expr = any_of(
            f"{level.value} {sign} {number(level.fires)}",
            all_of(near, firing),
            unless(all_of(self._last(recordings[-1], span(KNOWN_SECONDS)), firing), level.value),
        )
        said = f"{_capital(subject(objective))} is %value:{value_format(objective)}% {over(objective)}"
        return Alert(
            OBJECTIVE_ALERT,
            expr,
            labels,
            summary=f"A promise is broken: {subject(objective)}.",
            description=f"{said}, {promised(objective)}. {self._whose(objective)}",
            runbook_url=self._identity.runbook(OBJECTIVE_ALERT),
            dashboard_url=self._identity.dashboard(board_of(objective)),
            cause=f"Possible: {POSSIBLE_CAUSES[objective.indicator]}.",
            hold_seconds=objective.hold_seconds,
            keep_seconds=objective.clear_seconds,
            comments=self._says(objective),
            level=level,
        )

    def _levels(self, objective: Objective, recordings: list[Recording]) -> tuple[Level, str]:
        """The level, and PromQL that has something while the objective is not met by enough to end an incident."""
        low, high = self._last(recordings[0], self._gap), self._last(recordings[-1], self._gap)
        margin, target = Decimal(str(objective.clear_below_ratio)), Decimal(str(objective.target))
        if objective.indicator == "errors":
            return Level(low, True, target, target * margin), f"{high} > {number(target * margin)}"
        if objective.statistic == "mean":
            if objective.higher_is_better:
                clears = (target / margin).quantize(Decimal("0.0001"))
                return Level(high, False, target, clears), f"{high} < {number(clears)}"
            return Level(high, True, target, target * margin), f"{high} > {number(target * margin)}"
        promise = _promise(objective)
        clears = 1 - margin * (1 - promise) if objective.statistic == "share" else promise
        near = f"{low} < {number(clears)}" if len(recordings) > 1 else high
        return Level(high, False, promise, clears), near

    def _last(self, recording: Recording, lookback: str) -> str:
        """What was last recorded: a missed scrape does not begin a hold time again."""
        return f"last_over_time({recording.record}{{{matchers(**recording.labels)}}}[{lookback}])"

    def _says(self, objective: Objective) -> tuple[str, ...]:
        hold, w = decimal_text(Decimal(str(objective.hold_seconds)) / 60, 1), span(objective.window_seconds)
        if objective.indicator == "errors" or objective.statistic != "mean":
            allowed = Decimal(str(objective.target)) if objective.indicator == "errors" else 1 - _promise(objective)
            whole = (allowed * Decimal(str(objective.window_seconds)) + Decimal(str(objective.hold_seconds))) / 60
            word = "failed" if objective.indicator == "errors" else "slow"
            share = decimal_text(allowed * 100, 2)
            return (
                f"fires after {decimal_text(whole, 1)} min of full outage, or at more than {share} % {word} over {w}",
            )
        past = "falls below" if objective.higher_is_better else "passes"
        return (
            f"fires {hold} min after the mean over {w} {past} {amount(objective.target, objective.unit)};",
            "a full outage has no mean: frozen engines and unreachable pools have alerts of their own",
        )

    def _whose(self, objective: Objective) -> str:
        if objective.indicator in ("errors", "kv_transfer"):
            return ""
        return (
            f"All requests are in it; the promise is for {lengths(self._config.contract.prompt_tokens)} prompt tokens."
        )

    def _blind(self, objective: Objective, legs: tuple[Leg, ...], recording: Recording) -> Alert:
        """Requests finish and yet there is no value: something that the objective needs is not on the pages."""
        pools = self._error_pools(objective)[1] if objective.indicator == "errors" else legs[-1].pools
        finished = f"sum({self._source.increase('requests_finished', pools, objective.window_seconds)})"
        floor = objective.min_requests * 2
        return Alert(
            NO_DATA_ALERT,
            unless(f"{finished} >= {floor}", self._last(recording, span(BLIND_SECONDS))),
            self._identity.of_objective(objective, "warning"),
            summary="An objective cannot be judged although requests finish.",
            description=f"%value% requests finished {over(objective)}, but there is no {subject(objective)}.",
            runbook_url=self._identity.runbook(NO_DATA_ALERT),
            dashboard_url=self._identity.dashboard("overview"),
            cause="Possible: metrics missing in this vLLM version, other bucket edges, labels lost in relabelling.",
            hold_seconds=300.0,
            keep_seconds=300.0,
            comments=(f"fires 5 min after an objective with {floor} requests or more in its window had no value",),
        )


def _promise(objective: Objective) -> Decimal:
    """The promised share of requests within the target."""
    if objective.objective_ratio is not None:
        return Decimal(str(objective.objective_ratio))
    return Decimal(QUANTILES[objective.statistic])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
