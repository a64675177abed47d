"""The whole deployment's measurement for an objective: the pools by role come in, plain numbers go out.

With serial dispatch a request passes through two legs, so what a user waits for the first token, in queues or in all
is the sum of both legs (`legs.py`). With concurrent dispatch, and where pools serve both roles, the serving leg's
own time is the user's. A time of one role is that of the pools that have the role.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from agent.config import Objective
from agent.indicators.distribution import distribution
from agent.model import Role
from agent.verdicts.failures import failures, failures_of_legs
from agent.verdicts.inside import Inside
from agent.verdicts.legs import mean_of_sum, quantile_of_sum, share_of_sum_within
from agent.verdicts.measurement import Measurement, Range
from agent.verdicts.measuring import QUANTILES, Gained, errors, lacking, measure
from agent.windows.increase import merged

Dispatch = Literal["serial", "concurrent"]

LEGS = {"ttft": ("e2e", "ttft"), "e2e": ("e2e", "e2e"), "queue": ("queue", "queue")}
"""Indicator -> the families of the prefill and of the decode leg whose sum it is under serial dispatch.

A prefill leg ends with its first token, so that its end-to-end time is what the user waited until the hand-over.
"""
DECODING = frozenset({"tpot", "tpot_token", "itl", "decode", "acceptance_length"})


def measure_system(objective: Objective, by_role: Mapping[Role, Gained], dispatch: Dispatch) -> Measurement:
    """`by_role`: prefill, decode and both, each merged over its pools and absent without any."""
    if objective.indicator == "errors":
        return _errors(objective, by_role)
    prefill, decode = by_role.get("prefill"), by_role.get("decode")
    if prefill is not None and decode is not None and dispatch == "serial" and objective.indicator in LEGS:
        return _sum_of_legs(objective, prefill, decode)
    gained = _serving(objective, by_role)
    if gained is None:
        return Measurement("not_applicable", note=f"no pool of the system has a {objective.indicator}")
    return measure(objective, gained)


def _serving(objective: Objective, by_role: Mapping[Role, Gained]) -> Gained | None:
    """The pools that show what is not a sum: those that compute prompts, or those that tokens come from."""
    order: tuple[Role, ...] = ("decode", "both", "prefill")
    if objective.indicator == "prefill":
        order = ("prefill", "both", "decode")
    elif objective.indicator in DECODING:
        order = ("decode", "both")
    return next((by_role[role] for role in order if role in by_role), None)


def _sum_of_legs(objective: Objective, prefill: Gained, decode: Gained) -> Measurement:
    families = LEGS[objective.indicator]
    first, second = prefill.inside(families[0]), decode.inside(families[1])
    if first is None or second is None:
        pool, metric = ("prefill", families[0]) if first is None else ("decode", families[1])
        return lacking(metric, of=f"the {pool} pools' pages")
    # A user has waited for both legs only when the second gave its token: fewer of either is what the sum rests on.
    count = min(first.count, second.count)
    frame = Measurement(
        "ok",
        judged_on="leg_means" if objective.statistic == "mean" else "leg_bounds",
        count=count,
        needed=objective.min_requests,
        active=prefill.active or decode.active,
    )
    if count <= 0:
        return replace(frame, condition="no_data")
    for leg, metric in ((prefill, families[0]), (decode, families[1])):
        if distribution(metric, leg.increase.histograms[metric]).implausible:
            note = f"{leg.role}: {count:.0f} observations of {metric} add up to 0"
            return replace(frame, condition="implausible", note=note)
    outside = [prefill.outside(families[0], count), decode.outside(families[1], count)]
    return replace(
        frame,
        range=_range(objective, first, second),
        outside=max(outside, key=lambda leg: leg.high),
        note=_mismatch(first, second),
    )


def _range(objective: Objective, first: Inside, second: Inside) -> Range:
    if objective.statistic == "mean":
        return mean_of_sum(first, second)
    if objective.statistic == "share":
        return share_of_sum_within(first, second, objective.target)
    return quantile_of_sum(first, second, QUANTILES[objective.statistic])


def _mismatch(first: Inside, second: Inside) -> str:
    """Legs that do not pair (clients gone, retries, a window that cuts between them) blur a sum of distributions."""
    if math.isclose(first.count, second.count, rel_tol=0.1):
        return ""
    return f"{first.count:.0f} prefill legs stand against {second.count:.0f} decode legs"


def _errors(objective: Objective, by_role: Mapping[Role, Gained]) -> Measurement:
    serving = [gained for role, gained in by_role.items() if role != "prefill"]
    prefill = by_role.get("prefill")
    found = failures(merged(gained.increase for gained in serving)) if serving else None
    if prefill is not None:
        before = failures(prefill.increase)
        found = failures_of_legs(before, found) if before is not None and found is not None else None
    return errors(objective, found, active=any(gained.active for gained in by_role.values()))
