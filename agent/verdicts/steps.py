"""Step time that jumps at the same load, and one rank slower than its pool: minutes and engines in, problems out.

vLLM shows nowhere whether a decode batch ran from a CUDA graph. What shows is the consequence: from one minute to the
next every step takes half as long again, though no more and no longer requests arrive than before.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from agent.indicators.pools import PoolFacts
from agent.model import TARGET_WIDE, Problem
from agent.verdicts.wording import milliseconds
from agent.windows.history import PoolHistory
from agent.windows.increase import Increase, merged
from agent.windows.target import TargetIncreases

LOOK_BACK_SECONDS = 3600.0
BEFORE_MINUTES, AFTER_MINUTES = 10, 3
STEP_FACTOR = 1.4
SAME_LOAD_SHARE = 0.25
LEAST_STEPS_A_MINUTE = 100
SLOW_RANK_FACTOR = 1.3
LEAST_STEPS_OF_RANK = 200


@dataclass(frozen=True, slots=True)
class StepChange:
    """Mean step time before and after a change, and the load on both sides: requests begun per minute, their prompts.

    Requests running are no measure of the load here: slower steps keep each request longer in the batch.
    """

    at: float
    before_seconds: float
    after_seconds: float
    running_before: float
    running_after: float
    begun_before: float
    begun_after: float
    prompt_tokens_before: float | None
    prompt_tokens_after: float | None

    @property
    def factor(self) -> float:
        return self.after_seconds / self.before_seconds

    @property
    def same_load(self) -> bool:
        """True when neither arrivals nor prompts grew enough to explain longer steps."""
        more = grew(self.begun_before, self.begun_after, counted=True)
        longer = grew(self.prompt_tokens_before, self.prompt_tokens_after)
        return not (more or longer)


def step_problems(pool: PoolFacts, history: PoolHistory, now: float) -> list[Problem]:
    """A jump of the pool's step time at constant load, and slow ranks."""
    if pool.role == "prefill":
        return []
    found = []
    change = step_change(history.minutes(now - LOOK_BACK_SECONDS, now))
    if change is not None and change.same_load:
        text = (
            f"decode steps of pool {pool.name} went from {milliseconds(change.before_seconds)} to "
            f"{milliseconds(change.after_seconds)} (x{change.factor:.2f}) at the same load "
            f"({change.begun_before:.0f} -> {change.begun_after:.0f} requests a minute): "
            "decode batches may have left the CUDA-graph path"
        )
        evidence = {
            "step_seconds_before": change.before_seconds,
            "step_seconds": change.after_seconds,
            "running_before": change.running_before,
            "running": change.running_after,
        }
        found.append(Problem("latency_step_change", "", change.at, text, pool=pool.name, evidence=evidence))
    return found + _slow_ranks(pool, now)


def step_change(minutes: Sequence[tuple[float, Increase]]) -> StepChange | None:
    """The newest jump that the last minutes still show, or None.

    Judged on the median minute of `BEFORE_MINUTES` before and of all minutes after, at least `AFTER_MINUTES` of them,
    each of which must lie above the ones before: one slow minute is no change.
    """
    usable = [
        (start, gain, gain.histograms["itl"].mean)
        for start, gain in minutes
        if "itl" in gain.histograms and gain.histograms["itl"].count >= LEAST_STEPS_A_MINUTE
    ]
    for cut in range(len(usable) - AFTER_MINUTES, BEFORE_MINUTES - 1, -1):
        before, after = usable[cut - BEFORE_MINUTES : cut], usable[cut:]
        level_before = statistics.median(mean or 0.0 for _, _, mean in before)
        level_after = statistics.median(mean or 0.0 for _, _, mean in after)
        lowest_after = min(mean or 0.0 for _, _, mean in after)
        highest_before = max(mean or 0.0 for _, _, mean in before)
        if level_before > 0 and level_after > STEP_FACTOR * level_before and lowest_after > highest_before:
            return StepChange(
                at=after[0][0],
                before_seconds=level_before,
                after_seconds=level_after,
                running_before=_mean(before, "running") or 0.0,
                running_after=_mean(after, "running") or 0.0,
                begun_before=statistics.fmean(begun(gain) for _, gain, _ in before),
                begun_after=statistics.fmean(begun(gain) for _, gain, _ in after),
                prompt_tokens_before=prompt_tokens(merged(gain for _, gain, _ in before)),
                prompt_tokens_after=prompt_tokens(merged(gain for _, gain, _ in after)),
            )
    return None


def begun(gain: Increase) -> float:
    """Requests that got their first token."""
    first_tokens = gain.histograms.get("ttft")
    return first_tokens.count if first_tokens is not None else 0.0


def prompt_tokens(gain: Increase) -> float | None:
    """Mean prompt length of the requests that finished."""
    lengths = gain.histograms.get("prompt_tokens")
    return lengths.mean if lengths is not None else None


def grew(before: float | None, after: float | None, counted: bool = False) -> bool:
    """Whether a load rose by more than a quarter; of a counted one also by more than chance does."""
    if before is None or after is None:
        return False
    chance = 3.0 * (before**0.5) if counted else 0.0
    return after > before * (1 + SAME_LOAD_SHARE) + chance


def _mean(minutes: Sequence[tuple[float, Increase, float | None]], gauge: str) -> float | None:
    values = [value for _, gain, _ in minutes if (value := gain.gauge_mean(gauge)) is not None]
    return statistics.fmean(values) if values else None


def _slow_ranks(pool: PoolFacts, now: float) -> list[Problem]:
    """Engines whose steps take longer than those of all their siblings' middle, with like batches.

    On most of their pages too: an engine that stood still for half a minute has a few steps of that length in its mean.
    """
    steps: dict[tuple[str, str], float] = {}
    for name, target in pool.targets.items():
        for engine, gain in target.gained.engines.items():
            itl = gain.histograms.get("itl")
            if engine != TARGET_WIDE and itl is not None and itl.count >= LEAST_STEPS_OF_RANK and itl.mean:
                steps[name, engine] = itl.mean
    if len(steps) < 3:
        return []
    middle = statistics.median(steps.values())
    found = []
    for (name, engine), seconds in steps.items():
        usual_seconds = _usual_step(pool.targets[name].gained, engine) if seconds > SLOW_RANK_FACTOR * middle else 0.0
        if usual_seconds > SLOW_RANK_FACTOR * middle:
            text = (
                f"engine {engine} of {name}: steps of {milliseconds(seconds)} against {milliseconds(middle)} "
                f"of its pool's middle rank (x{seconds / middle:.2f})"
            )
            evidence = {"step_seconds": seconds, "pool_step_seconds": middle}
            found.append(Problem("rank_slow", name, now, text, "warning", pool.name, engine, evidence))
    return found


def _usual_step(gained: TargetIncreases, engine: str) -> float:
    """The engine's mean step time between two pages, the lower median over the window; 0 where no page tells."""
    means = []
    for interval in gained.intervals:
        for step in interval.histogram_steps():
            series = interval.layout.histograms[step.histogram].series
            count = sum(step.counts)
            if series.engine == engine and series.metric == "itl" and step.total is not None and count > 0:
                means.append(step.total / count)
    return statistics.median_low(means) if means else 0.0
