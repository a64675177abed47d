"""A verdict from a measurement: an objective and what its window says come in, the judgement and a sentence go out.

`met` and `breached` are given only when they hold for everything that the data leave open: the place of a quantile in
its bucket, the requests that may lie outside the promised prompt lengths. All else has a name of its own, and none of
those names is a kind of "good". The rules in prose: docs/objectives.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from agent.config import Objective
from agent.verdicts.measurement import UNKNOWN, Measurement
from agent.verdicts.phrases import LABELS, amount, between, lengths, over, promised, share_range, subject
from agent.verdicts.wording import plural

Word = Literal["met", "breached", "undecided", "insufficient_data", "no_data", "not_applicable"]
Signal = Literal["bad", "good", "near", "unknown"]
"""What a verdict means to the status: `near` is met, but not by enough to end an incident."""

TOLERANCE = 1e-9
"""Shares are quotients of counts: 19 of 20 must be 0.95 whatever the last bit says."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one objective over one window.

    `low`..`high` is where the statistic of the promised requests lies (`high` None: nothing bounds it), `target` what
    it is compared with: the share promised for statistic `share`, else the objective's target.
    """

    word: Word
    signal: Signal
    judged_on: str
    value: float | None
    low: float | None
    high: float | None
    target: float
    count: int
    text: str


def judge(objective: Objective, measured: Measurement, promise: tuple[int, int] | None = None) -> Verdict:
    """`promise`: the contract's prompt lengths, for the words only; their effect is in the measurement."""
    case = _Case(objective, measured, promise)
    if measured.condition == "not_applicable":
        return case.without_number("not_applicable", measured.note or f"{subject(objective)} does not exist")
    if measured.condition == "metric_missing":
        return case.without_number("no_data", measured.note or f"{subject(objective)}: the pages lack the metric")
    if measured.condition == "implausible":
        text = f"{subject(objective)}: the pages contradict themselves ({measured.note}); no number is taken from them"
        return case.without_number("undecided", text)
    if measured.count < measured.needed:
        live = measured.live
        if live is None or live.condition != "ok" or live.count < live.needed:
            return case.too_few()
        case = _Case(objective, live, promise)
        case.before = f"only {_counted(measured)} finished while tokens flow ({measured.needed:g} needed): "
    return case.too_few_inside() or case.judged()


class _Case:
    """One objective with one measurement, and the ways to end it."""

    def __init__(self, objective: Objective, measured: Measurement, promise: tuple[int, int] | None) -> None:
        self.objective = objective
        self.measured = measured
        self.promise = promise
        self.before = ""
        ratio = objective.objective_ratio
        self.target = ratio if objective.statistic == "share" and ratio is not None else objective.target
        self.unit = "ratio" if objective.statistic == "share" else objective.unit
        self.more_is_better = objective.statistic == "share" or objective.higher_is_better

    def without_number(self, word: Word, text: str) -> Verdict:
        count = round(self.measured.count)
        return Verdict(word, "unknown", self.measured.judged_on, None, None, None, self.target, count, text)

    def too_few(self) -> Verdict:
        measured = self.measured
        if measured.count <= 0 and not measured.active:
            return self.without_number("no_data", f"{subject(self.objective)}: no traffic {over(self.objective)}")
        seen = f"only {_counted(measured)} {over(self.objective)}"
        text = f"{subject(self.objective)}: {seen}, {measured.needed:g} needed"
        return self._with_numbers("insufficient_data", "unknown", text)

    def too_few_inside(self) -> Verdict | None:
        """Too few promised requests, or perhaps too few; None when there are surely enough."""
        measured, outside = self.measured, self.measured.outside
        if outside.high <= 0 or self.promise is None:
            return None
        surely, at_most = measured.count - outside.high, measured.count - outside.low
        seen = f"{_counted(measured)} {over(self.objective)}"
        inside = f"inside {lengths(self.promise)} prompt tokens"
        if at_most < 1:
            return self.without_number("no_data", f"{subject(self.objective)}: none of {seen} lies {inside}")
        if at_most < measured.needed:
            text = f"{subject(self.objective)}: at most {at_most:.0f} of {seen} lie {inside}"
            return self.without_number("insufficient_data", text)
        if surely < measured.needed:
            shares = share_range(outside.low / measured.count, outside.high / measured.count)
            text = (
                f"{self._sentence()}, undecided: {shares} of {measured.noun}s may lie outside {lengths(self.promise)} "
                f"prompt tokens, which leaves fewer than {measured.needed:g} that surely lie inside"
            )
            return self._with_numbers("undecided", "unknown", text)
        return None

    def judged(self) -> Verdict:
        word = self._word(self.target)
        if word == "undecided":
            return self._with_numbers(word, "unknown", f"{self._sentence()}, undecided: {self._why_undecided()}")
        text = self._sentence() + (f" ({self._although()})" if self.measured.outside.high > 0 else "")
        signal: Signal = "bad"
        if word == "met":
            signal = "unknown" if self.measured.partial else "good" if self._well_met() else "near"
        return self._with_numbers(word, signal, text)

    def _word(self, target: float) -> Literal["met", "breached", "undecided"]:
        range_ = self.measured.range
        low, high = range_.low, range_.high
        if self.objective.certainty == "likely":
            low, high = range_.likely_low, range_.likely_high
        room = TOLERANCE * target
        if self.more_is_better:
            return "met" if low >= target - room else "breached" if high < target - room else "undecided"
        if high <= target + room:
            return "met"
        # A quantile lies above its lower bound, never on it: a bucket does not hold its lower edge.
        strict = self.objective.statistic.startswith("p")
        return "breached" if low > target + room or (strict and low >= target - room) else "undecided"

    def _well_met(self) -> bool:
        """Met by enough to end an incident. A quantile's buckets are too coarse for a margin: met is enough there."""
        margin = self.objective.clear_below_ratio
        if self.objective.statistic == "share":
            return self._word(1.0 - margin * (1.0 - self.target)) == "met"
        if self.objective.statistic != "mean":
            return True
        return self._word(self.target / margin if self.more_is_better else self.target * margin) == "met"

    def _with_numbers(self, word: Word, signal: Signal, text: str) -> Verdict:
        measured, range_ = self.measured, self.measured.range
        if measured.note:
            text += f"; {measured.note}"
        return Verdict(
            word,
            signal,
            measured.judged_on,
            range_.value,
            None if range_ == UNKNOWN else range_.low,
            None if math.isinf(range_.high) else range_.high,
            self.target,
            round(measured.count),
            text,
        )

    def _sentence(self) -> str:
        measured, range_ = self.measured, self.measured.range
        number = amount(range_.value, self.unit)
        if range_.value is None or (self.objective.statistic != "mean" and range_.low != range_.high):
            number = between(range_.low, range_.high, self.unit)
        name = subject(self.objective)
        if measured.judged_on == "token_mean" and self.objective.indicator == "tpot":
            name = f"token-mean {LABELS['tpot']} of {self.objective.scope}"
        seen = f"{_counted(measured)} {over(self.objective)}"
        return f"{self.before}{name} {number} over {seen}, {promised(self.objective)}"

    def _although(self) -> str:
        measured, outside = self.measured, self.measured.outside
        shares = share_range(outside.low / measured.count, outside.high / measured.count)
        return f"whichever {shares} of {measured.noun}s lie outside {lengths(self.promise or (0, 0))} prompt tokens"

    def _why_undecided(self) -> str:
        measured, outside = self.measured, self.measured.outside
        range_ = between(measured.range.low, measured.range.high, self.unit)
        if outside.high > 0 and self.promise is not None:
            shares = share_range(outside.low / measured.count, outside.high / measured.count)
            inside = lengths(self.promise)
            return f"{shares} of {measured.noun}s may lie outside {inside} prompt tokens, those inside show {range_}"
        if measured.judged_on == "leg_bounds":
            return f"two legs' distributions leave it {range_}; percentiles do not add up"
        return f"the buckets leave it {range_}"


def _counted(measured: Measurement) -> str:
    """`1 request`, `412 requests`."""
    return plural(round(measured.count), measured.noun)
