"""The promises: what an objective is, and the two that hold where none are configured. In: nodes. Out: frozen
values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from agent.config.fields import (
    REQUIRED,
    TEXT,
    Contradiction,
    Kind,
    build,
    choice,
    duration,
    integer,
    number,
    setting,
)
from agent.config.node import Node
from agent.config.pools import Pool
from agent.config.quantities import duration_seconds

Indicator = Literal[
    "ttft", "tpot", "tpot_token", "itl", "queue", "prefill", "decode", "e2e", "kv_transfer",
    "acceptance_length", "errors",
]  # fmt: skip
Statistic = Literal["mean", "p50", "p90", "p95", "p99", "share"]
Certainty = Literal["bounds", "likely"]
Unit = Literal["seconds", "ratio", "tokens"]

INDICATORS: tuple[Indicator, ...] = get_args(Indicator)
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)

MIN_WINDOW_SECONDS = 60.0
MAX_WINDOW_SECONDS = 3 * 86400.0

_UNITS: dict[str, Unit] = {"acceptance_length": "tokens", "errors": "ratio"}
_MEAN_ONLY = ("tpot_token", "acceptance_length", "errors")


def _read_target(node: Node) -> float:
    try:
        return duration_seconds(node.scalar())
    except ValueError as error:
        raise node.error(str(error)) from None


@dataclass(frozen=True, slots=True)
class Objective:
    """A promise: `statistic` of `indicator` in `scope` against `target`, over `window_seconds`.

    `target` is in `unit`: seconds for times, 0..1 for `errors`, tokens per verify step for `acceptance_length`.
    The objective is met at or below it; for `acceptance_length`, where more is better, at or above it.
    """

    indicator: Indicator = setting(
        "indicator", choice(*INDICATORS), REQUIRED, "What is judged: " + ", ".join(INDICATORS)
    )
    scope: str = setting("scope", TEXT, REQUIRED, "`system`, or a pool's name")
    target: float = setting(
        "target",
        Kind("duration or number", _read_target),
        REQUIRED,
        "The promised value: a duration; for `errors` a share 0..1, for `acceptance_length` tokens per step",
    )
    name: str = setting("name", TEXT, "", "Name on alerts and metrics; the indicator's unless given")
    statistic: Statistic = setting(
        "statistic",
        choice(*STATISTICS),
        "mean",
        "`mean`, `p50`, `p90`, `p95`, `p99`, or `share` of requests within the target",
    )
    objective_ratio: float | None = setting(
        "objective", number(0, 1, above=True), None, "With `share`: the share that is promised, such as 0.95"
    )
    window_seconds: float = setting(
        "window", duration(MIN_WINDOW_SECONDS, MAX_WINDOW_SECONDS), 300.0, "What is judged: the last 1m to 3d"
    )
    min_requests: int = setting("min_requests", integer(1), 20, "With fewer requests in the window: insufficient data")
    hold_seconds: float = setting("hold", duration(), 120.0, "How long a breach must stand before it fires")
    clear_seconds: float = setting("clear", duration(), 300.0, "How long it must be good again before it is resolved")
    clear_below_ratio: float = setting(
        "clear_below",
        number(0, 1, above=True),
        0.95,
        "Good again means: better than this share of the target",
    )
    certainty: Certainty = setting(
        "certainty",
        choice("bounds", "likely"),
        "bounds",
        "What decides: `bounds` that always hold, or the `likely` 95 % interval",
    )

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.indicator)
        if self.target <= 0:
            raise Contradiction("target", "must be above 0")
        if self.unit == "ratio" and self.target > 1:
            raise Contradiction("target", f"a share of requests is at most 1, not {self.target:g}")
        if self.unit == "tokens" and self.target < 1:
            raise Contradiction("target", f"an acceptance length is at least 1 token per step, not {self.target:g}")
        if self.statistic != "mean" and self.indicator in _MEAN_ONLY:
            raise Contradiction("statistic", f"{self.indicator} has a mean only, no {self.statistic}")
        if self.statistic == "share" and self.objective_ratio is None:
            raise Contradiction("statistic", "'share' needs an 'objective' beside it, such as 0.95")
        if self.statistic != "share" and self.objective_ratio is not None:
            raise Contradiction("objective", f"goes with statistic 'share', not with '{self.statistic}'")

    @property
    def unit(self) -> Unit:
        """What `target` is counted in."""
        return _UNITS.get(self.indicator, "seconds")

    @property
    def higher_is_better(self) -> bool:
        """True where the target is a floor, not a ceiling."""
        return self.indicator == "acceptance_length"


def read_objective(node: Node) -> Objective:
    """One entry of `objectives`. Raises ConfigError."""
    return build(Objective, node)


def default_objectives(pools: Iterable[Pool]) -> tuple[Objective, ...]:
    """Mean TTFT of the system <= 2.5 s, and mean TPOT <= 20 ms in every pool that decodes.

    The TPOT objective is called `tpot`; with several decoding pools each has its own, `tpot-POOL`, except in a
    pool called `decode`.
    """
    pools = list(pools)
    decoding = [pool.name for pool in pools if pool.role == "decode"]
    decoding = decoding or [pool.name for pool in pools if pool.role == "both"]
    objectives = [Objective(indicator="ttft", scope="system", target=2.5)]
    for pool_name in decoding:
        name = "tpot" if pool_name == "decode" or len(decoding) == 1 else f"tpot-{pool_name}"
        objectives.append(Objective(name=name, indicator="tpot", scope=pool_name, target=0.020))
    return tuple(objectives)
