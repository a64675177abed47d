"""One pool's measurement for an objective: what the pool gained over the window comes in, plain numbers go out.

Also for several pools of one kind, merged before. Sums of legs are in `system.py`. Every indicator of the
configuration has its line here; what it means is in docs/objectives.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.config import Objective
from agent.indicators.distribution import distribution
from agent.indicators.latency import NOT_ON_PREFILL, latencies, tpot_token_mean
from agent.indicators.outcomes import finished
from agent.indicators.speculation import Padding, padding, speculation
from agent.model import Role
from agent.verdicts.failures import Failures, failures
from agent.verdicts.inside import Estimator, Inside
from agent.verdicts.lengths import Lengths
from agent.verdicts.measurement import Condition, Measurement, Noun, Outside, Range
from agent.verdicts.phrases import LABELS
from agent.windows.increase import Increase

STEPS_PER_REQUEST = 10
"""A mean over engine steps needs this many of them for each request that a mean over requests would need."""
IN_FLIGHT_PART = 0.2
"""The live mean stands in for finished requests only while at least this part of `min_requests` is being served: in a
collapse many requests are under way and none ends; at night one slow request is."""

RECORDED_AT_FINISH = frozenset({"tpot", "queue", "prefill", "decode", "e2e"})
METRICS = {"kv_transfer": "kv_transfer_time"}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Gained:
    """What one pool, or several of one role together, gained over an objective's window.

    `in_flight`: requests being served on average (None: not on the pages). `started`, `ended`: prompt lengths of the
    requests that began and of those that finished here. `estimators`: better than buckets, by metric. `padding`: of its
    engines, where they are known apart. Not `tells_tokens`: an engine lacks a part of the live token mean.
    """

    role: Role
    increase: Increase
    in_flight: float | None
    started: Lengths
    ended: Lengths
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    padding: Padding | None = None
    tells_tokens: bool = True

    @property
    def active(self) -> bool:
        """Whether anything was served: a token, a prompt, an end."""
        gained = self.increase
        counts = (gained.count("generation_tokens"), gained.count("prompt_tokens"), finished(gained))
        return any(count is not None and count > 0 for count in counts)

    def inside(self, metric: str) -> Inside | None:
        """The promised requests of one family; None where the pages lack it."""
        histogram = self.increase.histograms.get(metric)
        if histogram is None:
            return None
        outside = self.outside(metric, max(0.0, histogram.count))
        return Inside(histogram, outside.high, self.estimators.get(metric))

    def outside(self, metric: str, count: float) -> Outside:
        """How many of the family's observations may not be promised. Transfers are not told apart by prompt length."""
        if metric == "kv_transfer_time":
            return Outside()
        return (self.ended if metric in RECORDED_AT_FINISH else self.started).outside(count)


def measure(objective: Objective, gained: Gained) -> Measurement:
    """The objective's indicator and statistic in one pool (or pools of one role)."""
    match objective.indicator:
        case "tpot_token":
            return _token_mean(objective, gained)
        case "acceptance_length":
            return _acceptance_length(objective, gained)
        case "errors":
            return errors(objective, failures(gained.increase), gained.active)
        case indicator:
            if gained.role == "prefill" and indicator in NOT_ON_PREFILL:
                note = f"a prefill leg ends with its first token and has no {LABELS[indicator]}"
                return Measurement("not_applicable", note=note)
            found = _of_histogram(objective, METRICS.get(indicator, indicator), gained)
    if objective.indicator != "tpot" or objective.statistic != "mean":
        return found
    if found.condition == "metric_missing":
        found = _tpot_from_decode_time(objective, gained)
    if found.condition == "metric_missing":
        live = _token_mean(objective, gained)
        return found if live.condition == "metric_missing" else live
    return replace(found, live=_live(objective, gained))


def statistic(objective: Objective, inside: Inside) -> Range:
    """The objective's statistic of the promised requests."""
    if objective.statistic == "mean":
        return inside.mean()
    if objective.statistic == "share":
        return inside.share_within(objective.target)
    return inside.quantile(QUANTILES[objective.statistic])


def lacking(metric: str, of: str = "the pages") -> Measurement:
    """The measurement where a family is missing."""
    return Measurement("metric_missing", note=f"{of} lack {metric}, so it cannot be judged")


def _of_histogram(objective: Objective, metric: str, gained: Gained) -> Measurement:
    inside = gained.inside(metric)
    if inside is None and not gained.increase.is_known:
        return Measurement("metric_missing", note="no page of the window can be used, so it cannot be judged")
    if inside is None:
        return lacking(metric)
    count = inside.count
    noun: Noun = "step" if metric == "itl" else "transfer" if metric == "kv_transfer_time" else "request"
    kind = {"mean": "mean", "share": "share"}.get(objective.statistic, "quantile")
    frame = Measurement(
        "ok",
        judged_on=f"{noun}_{kind}",
        count=count,
        needed=objective.min_requests * (STEPS_PER_REQUEST if noun == "step" else 1),
        noun=noun,
        active=gained.active,
        note=_lengths_note(gained, metric),
    )
    if count <= 0:
        return replace(frame, condition="no_data")
    if distribution(metric, gained.increase.histograms[metric]).implausible:
        return replace(frame, condition="implausible", note=f"{round(count)} observations of {metric} add up to 0")
    outside = gained.outside(metric, count)
    return replace(frame, range=statistic(objective, inside), outside=outside)


def _lengths_note(gained: Gained, metric: str) -> str:
    known = metric == "kv_transfer_time" or gained.outside(metric, 1.0).known
    return "" if known else "prompt lengths are not on the pages: all requests are judged"


def _tpot_from_decode_time(objective: Objective, gained: Gained) -> Measurement:
    """Before vLLM 0.11 there is only a mean over tokens: decode time over tokens after the first, without buckets."""
    derived = latencies(gained.increase, gained.role)["tpot"]
    if derived.status == "metric_missing" or not derived.derived:
        missing: Condition = "metric_missing" if derived.status == "metric_missing" else "no_data"
        return replace(lacking("tpot"), condition=missing, needed=objective.min_requests, active=gained.active)
    count = float(derived.count or 0)
    outside = gained.ended.outside(count)
    value = derived.mean
    range_ = Range.certain(value, 0.0, math.inf)
    if value is not None and outside.high <= 0:
        range_ = Range.certain(value, value, value)
    return Measurement(
        "ok",
        judged_on="decode_time_over_tokens",
        count=count,
        needed=objective.min_requests,
        range=range_,
        outside=outside,
        active=gained.active,
    )


def _token_mean(objective: Objective, gained: Gained) -> Measurement:
    """Decoding time over tokens, finished or not.

    Nothing on a page tells whose steps they were. Requests of one batch share its steps, so the requests outside are
    taken to have had as large a share of the steps as of the requests, whichever steps those were.
    """
    if gained.role == "prefill":
        return Measurement("not_applicable", note="a prefill leg ends with its first token and has no TPOT")
    steps = gained.increase.histograms.get("itl")
    if steps is None or gained.increase.count("generation_tokens") is None:
        return lacking("itl" if steps is None else "generation_tokens")
    if not gained.tells_tokens:
        return lacking("itl, ttft or generation_tokens", "the pages of some engines")
    value = tpot_token_mean(gained.increase, gained.role)
    count = max(0.0, steps.count)
    frame = Measurement(
        "ok",
        judged_on="token_mean",
        count=count,
        needed=objective.min_requests * STEPS_PER_REQUEST,
        noun="step",
        active=gained.active,
        note=_lengths_note(gained, "itl"),
    )
    if value is None or count <= 0:
        return replace(frame, condition="no_data", count=0.0)
    outside = gained.started.outside(count)
    step_mean = steps.mean
    per_token = value / step_mean if step_mean else 0.0
    lengths = Inside(steps, outside.high).mean()
    range_ = Range.certain(value, lengths.low * per_token, lengths.high * per_token)
    if outside.high <= 0:
        range_ = Range.certain(value, value, value)
    return replace(frame, range=range_, outside=outside)


def _live(objective: Objective, gained: Gained) -> Measurement | None:
    """The token mean, to be judged while too few requests finish; None while too few are being served."""
    enough = max(2.0, IN_FLIGHT_PART * objective.min_requests)
    if gained.in_flight is not None and gained.in_flight < enough:
        return None
    return _token_mean(objective, gained)


def _acceptance_length(objective: Objective, gained: Gained) -> Measurement:
    found = speculation(gained.increase, gained.padding or padding(gained.increase, gained.role))
    if found is None or gained.role == "prefill":
        return Measurement("not_applicable", note="no speculative decoding on these pages")
    steps = float(found.drafts - found.padded_drafts)
    frame = Measurement(
        "ok",
        judged_on="step_mean",
        count=max(0.0, steps),
        needed=objective.min_requests * STEPS_PER_REQUEST,
        noun="step",
        active=gained.active,
    )
    length = found.acceptance_length
    if length is None:
        return replace(frame, condition="no_data", count=0.0)
    return replace(frame, range=Range.certain(length, length, length))


def errors(objective: Objective, found: Failures | None, active: bool) -> Measurement:
    """The share of requests that went wrong; it knows no prompt lengths, as a refused request has none."""
    if found is None:
        return lacking("requests_finished")
    return Measurement(
        "ok" if found.seen_high > 0 else "no_data",
        judged_on="request_share",
        count=found.seen_high,
        needed=objective.min_requests,
        range=found.share(),
        active=active or found.seen_high > 0,
    )
