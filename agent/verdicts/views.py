"""Windows of any length as measurements: the windows at one moment come in, a measurement per objective goes out.

Windows up to what is kept scrape by scrape are exact; longer ones are sums of the pools' history. Each window is added
up once, however many objectives look through it. `without_warm_up` looks again, leaving out what freshly started
servers did first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.config import Config, Objective, duration_text
from agent.indicators.facts import ROUTER_POOL
from agent.indicators.pools import PoolFacts, TargetFacts
from agent.indicators.requests import SpansView
from agent.indicators.routers import as_pool, fresh_total
from agent.indicators.speculation import added
from agent.model import Role
from agent.verdicts.inside import Estimator
from agent.verdicts.judged_by import BY_ROUTER, LONGEST_BY_SPANS_SECONDS, SPANS_LATE_SECONDS, Sources, best, traced
from agent.verdicts.lengths import Lengths
from agent.verdicts.measurement import Measurement
from agent.verdicts.measuring import Gained, measure
from agent.verdicts.system import measure_system
from agent.verdicts.warmup import WarmUps
from agent.verdicts.wording import duration
from agent.windows.fleet import FleetWindows
from agent.windows.history import LongWindow
from agent.windows.increase import HistogramIncrease, Increase, merged

Facts = Callable[[float, float], Sequence[PoolFacts]]
"""(begin, now) -> the pools' facts over that window."""
Estimates = Callable[[str, str, float], Estimator | None]
"""(pool, metric, begin of the window) -> an estimator better than buckets, where there is one."""

LENGTHS_LOOK_BACK_SECONDS = 3600.0
"""While nothing finishes, prompts are taken to be as long as those of the last hour were."""
OLDEST_PART, OLDEST_SECONDS = 1 / 360, 300.0
"""A sum of a long window is taken again after this part of the window, and at the latest after so many seconds."""
SYSTEM_ROLES: tuple[Role, ...] = ("prefill", "decode", "both")


@dataclass(frozen=True, slots=True)
class _Window:
    """One window over all pools: recent facts, and what each pool gained in all of it.

    `watched_seconds`: how much of a long window was watched; None for a window that the facts cover themselves.
    """

    begin: float
    facts: Mapping[str, PoolFacts]
    gained: Mapping[str, Increase]
    watched_seconds: float | None

    def targets(self, scope: str) -> Iterator[tuple[str, TargetFacts]]:
        for name, pool in self.facts.items():
            if scope in ("system", name):
                yield from pool.targets.items()


class Histories:
    """Long sums, kept for a moment: a window of hours need not be added up anew with every scrape."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, float], tuple[float, LongWindow]] = {}

    def window(self, windows: FleetWindows, pool: str, seconds: float, now: float) -> LongWindow:
        """The pool's last `seconds`, at most a small part of them old."""
        key = pool, seconds
        at, kept = self._kept.get(key, (None, None))
        if at is None or kept is None or not 0 <= now - at < min(OLDEST_SECONDS, seconds * OLDEST_PART):
            kept = windows.pools[pool].window(seconds, now)
            self._kept[key] = now, kept
        return kept

    def forget(self) -> None:
        """After the clock was set, or the pools changed."""
        self._kept.clear()


class Views:
    """All windows at one moment `now`. `facts` must reach back as far as `windows.retain_seconds`."""

    def __init__(
        self,
        config: Config,
        windows: FleetWindows,
        facts: Facts,
        now: float,
        warm_ups: WarmUps,
        histories: Histories,
        estimates: Estimates | None = None,
        sources: Sources | None = None,
    ) -> None:
        self._config = config
        self._windows = windows
        self._facts = facts
        self._now = now
        self._warm_ups = warm_ups
        self._histories = histories
        self._estimates = estimates
        self._sources = sources
        self._spans: dict[tuple[float, float], SpansView | None] = {}
        self._cached: dict[float, _Window] = {}

    def measurement(self, objective: Objective) -> Measurement:
        """The objective over its whole window, as users had it."""
        window = self._window(objective.window_seconds)
        found = self._measure(objective, window, window.gained)
        if self._sources is not None:
            view = self._spans_view(self._sources, objective, window)
            of_spans = traced(objective, view) if view is not None else None
            router = self._router(self._sources, objective, window) if objective.scope == "system" else None
            found = best(objective, found, of_spans, router, self._config.contract.prompt_tokens)
        notes = [found.note, *self._notes(objective, window)]
        return replace(found, note="; ".join(note for note in notes if note), partial=_partial(objective, window))

    def without_warm_up(self, objective: Objective) -> Measurement | None:
        """The same without the first minutes of servers that just started; None when there are none in the window.

        By the pages: neither spans nor a router can leave a server's first minutes out.
        """
        window = self._window(objective.window_seconds)
        warm = {name: self._warm_ups.gained(pool) for name, pool in window.facts.items()}
        if not any(gain is not None for name, gain in warm.items() if objective.scope in ("system", name)):
            return None
        if window.watched_seconds is None:
            cool = {name: self._warm_ups.rest(pool) for name, pool in window.facts.items()}
        else:
            cool = {name: _less(gained, warm[name]) for name, gained in window.gained.items()}
        return self._measure(objective, window, cool)

    def watched_seconds(self, seconds: float) -> float | None:
        """How much of a window longer than what is kept scrape by scrape was watched; None for a shorter one."""
        return self._window(seconds).watched_seconds

    def _window(self, seconds: float) -> _Window:
        if seconds not in self._cached:
            self._cached[seconds] = self._read(seconds)
        return self._cached[seconds]

    def _read(self, seconds: float) -> _Window:
        begin = self._now - seconds
        if seconds <= self._windows.retain_seconds:
            facts = {pool.name: pool for pool in self._facts(begin, self._now)}
            return _Window(begin, facts, {name: pool.total for name, pool in facts.items()}, None)
        recent = self._window(self._windows.retain_seconds).facts
        histories = {name: self._histories.window(self._windows, name, seconds, self._now) for name in recent}
        watched = max((self._now - long.start for long in histories.values()), default=0.0)
        return _Window(begin, recent, {name: long.increase for name, long in histories.items()}, watched)

    def _measure(self, objective: Objective, window: _Window, gained: Mapping[str, Increase]) -> Measurement:
        facts = window.facts
        if objective.scope == "system":
            by_role = {}
            for role in SYSTEM_ROLES:
                pools = [pool for pool in facts.values() if pool.role == role]
                if pools:
                    by_role[role] = self._gained(role, pools, window, gained)
            return measure_system(objective, by_role, self._config.dispatch)
        pool = facts.get(objective.scope)
        if pool is None:
            return Measurement("not_applicable", note=f"there is no pool {objective.scope}")
        return measure(objective, self._gained(pool.role, [pool], window, gained))

    def _spans_view(self, sources: Sources, objective: Objective, window: _Window) -> SpansView | None:
        """What spans say of a stretch as long as the pages of the scope cover, earlier by what spans come late."""
        covered = [
            (target.gained.start, target.gained.end)
            for _, target in window.targets(objective.scope)
            if target.gained.start is not None and target.gained.end is not None
        ]
        if not covered or objective.window_seconds > LONGEST_BY_SPANS_SECONDS:
            return None
        until = sum(end for _, end in covered) / len(covered) - SPANS_LATE_SECONDS
        since = sum(start for start, _ in covered) / len(covered) - SPANS_LATE_SECONDS
        if window.watched_seconds is not None:
            since = until - objective.window_seconds
        if (since, until) not in self._spans:
            self._spans[since, until] = sources.spans(since, until)
        return self._spans[since, until]

    def _router(self, sources: Sources, objective: Objective, window: _Window) -> Measurement | None:
        """The router's own histogram, its prompt lengths those of its page or else of the pools that serve."""
        if objective.indicator not in BY_ROUTER:
            return None
        router = sources.router(max(window.begin, self._now - self._windows.retain_seconds), self._now)
        if router is None:
            return None
        gained = fresh_total(router)
        if window.watched_seconds is not None:
            gained = self._histories.window(self._windows, ROUTER_POOL, objective.window_seconds, self._now).increase
        increase = as_pool(gained)
        if objective.indicator not in increase.histograms:
            return None
        promise, prompts = self._config.contract.prompt_tokens, increase.histograms.get("prompt_tokens")
        if prompts is None or prompts.count <= 0:
            serving = [pool for pool in window.facts.values() if pool.role != "prefill"]
            prompts = self._prompts(serving, window.gained)
        lengths = Lengths(prompts, promise)
        return replace(measure(objective, Gained("router", increase, None, lengths, lengths)), judged_on="router")

    def _gained(
        self, role: Role, pools: Sequence[PoolFacts], window: _Window, gained: Mapping[str, Increase]
    ) -> Gained:
        increase = merged(gained[pool.name] for pool in pools)
        promise = self._config.contract.prompt_tokens
        # A decode leg's prompt is counted when it ends; the prefill legs that fed it have ended already.
        feeding = [pool for pool in window.facts.values() if pool.role == "prefill"] if role == "decode" else []
        own = self._prompts(pools, gained)
        return Gained(
            role,
            increase,
            in_flight=_in_flight(pools),
            started=Lengths(self._prompts(feeding, gained) or own, promise),
            ended=Lengths(own, promise, same_requests=True),
            estimators=self._estimators(pools, increase, window.begin) if gained is window.gained else {},
            padding=added(pool.padding for pool in pools)
            if gained is window.gained and window.watched_seconds is None
            else None,
            tells_tokens=all(pool.tells_tokens for pool in pools),
        )

    def _prompts(self, pools: Sequence[PoolFacts], gained: Mapping[str, Increase]) -> HistogramIncrease | None:
        """Prompt lengths of what finished in these pools in the window; of the last hour while nothing did."""
        found = _family("prompt_tokens", [gained[pool.name] for pool in pools])
        if found is None or found.count > 0:
            return found
        longer = [
            self._histories.window(self._windows, pool.name, LENGTHS_LOOK_BACK_SECONDS, self._now).increase
            for pool in pools
        ]
        return _family("prompt_tokens", longer) or found

    def _estimators(self, pools: Sequence[PoolFacts], increase: Increase, begin: float) -> dict[str, Estimator]:
        if self._estimates is None or len(pools) != 1:
            return {}
        found = {metric: self._estimates(pools[0].name, metric, begin) for metric in increase.histograms}
        return {metric: estimator for metric, estimator in found.items() if estimator is not None}

    def _notes(self, objective: Objective, window: _Window) -> Iterator[str]:
        silent = sorted(name for name, target in window.targets(objective.scope) if not target.fresh)
        if silent:
            yield f"without {', '.join(silent[:5])}{' and others' if len(silent) > 5 else ''}, silent now"
        watched = window.watched_seconds
        if watched is not None and watched < 0.9 * objective.window_seconds:
            yield f"only {duration(watched)} of {duration_text(objective.window_seconds)} were watched"


def _partial(objective: Objective, window: _Window) -> bool:
    """A target fell silent within the window: what it does now is not seen, and may be worse than what is."""
    return any(
        not target.fresh and target.age_seconds is not None and target.age_seconds <= objective.window_seconds
        for _, target in window.targets(objective.scope)
    )


def _in_flight(pools: Iterable[PoolFacts]) -> float | None:
    """Requests being served, averaged over the pages of the window; None where no page says."""
    means = [
        mean
        for pool in pools
        for target in pool.targets.values()
        for gain in target.gained.engines.values()
        if (mean := gain.gauge_mean("running")) is not None
    ]
    return sum(means) if means else None


def _family(metric: str, increases: Iterable[Increase]) -> HistogramIncrease | None:
    """One histogram over several increases; None where none of them has it."""
    found = [increase.histograms[metric] for increase in increases if metric in increase.histograms]
    return merged(Increase(histograms={metric: histogram}) for histogram in found).histograms.get(metric)


def _less(whole: Increase, part: Increase | None) -> Increase:
    """A long window without a part of it. What the history does not hold yet (its last interval) is not taken out."""
    if part is None:
        return whole
    rest = whole.copy()
    for key, step in part.counters.items():
        if key in rest.counters:
            rest.counters[key] = max(0.0, rest.counters[key] - step)
    for metric, histogram in part.histograms.items():
        mine = rest.histograms.get(metric)
        if mine is not None and mine.edges == histogram.edges:
            counts = [max(0.0, count - gone) for count, gone in zip(mine.counts, histogram.counts, strict=True)]
            mine.counts, mine.total = counts, max(0.0, mine.total - histogram.total)
            mine.unsummed = max(0.0, mine.unsummed - histogram.unsummed)
    return rest
