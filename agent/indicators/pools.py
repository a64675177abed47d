"""Pools: what the targets of one pool gained and show now comes in, the pool's numbers go out.

Engines first, then targets, then the pool: buckets and sums are added before any quotient is taken, and the gauges of a
target whose page is stale are left out of the sums rather than repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agent.indicators import latency
from agent.indicators.believed import believed, drafts_told
from agent.indicators.load import Gauges, load
from agent.indicators.outcomes import http_answers, outcomes, summed, throughput
from agent.indicators.percentiles import Percentiles
from agent.indicators.speculation import Padding, added, padding, speculation
from agent.indicators.transfer import kv_transfer
from agent.model import TARGET_WIDE, Role
from agent.reading.series import is_rank
from agent.state import EngineState, PoolState, Speculation, TargetState, Throughput
from agent.windows.history import LongWindow
from agent.windows.increase import Increase, merged, merged_counters
from agent.windows.target import TargetIncreases, TargetWindow


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What a window holds of one target. `fresh`: its latest page is recent enough for its gauges to count."""

    window: TargetWindow
    gained: TargetIncreases
    fresh: bool
    age_seconds: float | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """One pool over one window. `gpus` None: not configured."""

    name: str
    role: Role
    gpus: int | None
    targets: Mapping[str, TargetFacts]
    total: Increase
    """The increases of all its engines together."""
    long_seconds: float | None = None
    """Real time of a window longer than scrapes are kept for: then `total` comes from the pool's history alone."""

    @property
    def covered_seconds(self) -> float:
        """Real time of the pool's window: the longest of its targets'."""
        if self.long_seconds is not None:
            return self.long_seconds
        return max((facts.gained.covered_seconds for facts in self.targets.values()), default=0.0)

    @property
    def padding(self) -> Padding:
        """Per engine and then added: one engine's idle steps must not hide another's padding, nor its depth."""
        if self.long_seconds is not None:
            return padding(self.total, self.role)
        return added([padding(gain, self.role) for gain in self._gains() if drafts_told(gain)])

    @property
    def speculation(self) -> Speculation | None:
        """What speculative decoding did in the window; None where no page speaks of it."""
        return speculation(self.total, self.padding)

    @property
    def tells_tokens(self) -> bool:
        """Whether every engine shows all that the live token mean is made of: a mean of halves is nobody's."""
        return all(
            gain.histograms.keys() >= {"itl", "ttft"} and gain.count("generation_tokens") is not None
            for gain in self._gains()
            if gain.histograms or gain.counters
        )

    def _gains(self) -> Iterator[Increase]:
        for target in self.targets.values():
            for engine, gain in target.gained.engines.items():
                if engine != TARGET_WIDE:
                    yield gain

    def parts(self) -> list[tuple[Increase, float]]:
        """(counters, seconds they took) of what rates are added up from: each target over its own time."""
        if self.long_seconds is not None:
            return [(self.total, self.long_seconds)]
        targets = self.targets.values()
        return [(merged_counters(facts.gained.engines.values()), facts.gained.covered_seconds) for facts in targets]


def pool_facts(
    name: str, role: Role, gpus: int | None, targets: Mapping[str, TargetFacts], long: LongWindow | None = None
) -> PoolFacts:
    """One pool's facts with the increases of all its engines added up, or taken from a long window."""
    if long is not None:
        return PoolFacts(name, role, gpus, targets, long.increase, max(0.0, long.end - long.start))
    total = merged(believed([gain for facts in targets.values() for gain in facts.gained.engines.values()]))
    return PoolFacts(name, role, gpus, targets, total)


def pool_state(facts: PoolFacts, percentiles: Mapping[str, Percentiles] | None = None) -> PoolState:
    """All numbers of one pool, its targets and their engines. `percentiles`: metric -> what its sums recover."""
    percentiles = percentiles or {}
    targets = {name: _target_state(target, facts.role) for name, target in facts.targets.items()}
    total, role = facts.total, facts.role
    heard = any(target.fresh for target in facts.targets.values())
    found = latency.latencies(total, role, percentiles, heard)
    token_mean = latency.tpot_token_mean(total, role) if facts.tells_tokens else None
    request_mean = found["tpot"].mean if not found["tpot"].derived else None
    rates = [throughput(gain, seconds, found["tpot"]) for gain, seconds in facts.parts()]
    return PoolState(
        role=role,
        gpus=facts.gpus,
        targets=targets,
        latency=found,
        tpot_token_mean=token_mean,
        tpot_mix_difference=None if token_mean is None or request_mean is None else request_mean - token_mean,
        throughput=summed(rates, facts.gpus, found["tpot"]),
        speculation=facts.speculation,
        kv_transfer=kv_transfer(total, role, facts.covered_seconds, percentiles.get("kv_transfer_time")),
        load=load(_pool_gauges(facts), total),
        outcomes=outcomes(total),
        http=http_answers(total),
    )


def _pool_gauges(facts: PoolFacts) -> Gauges:
    gathered: dict[tuple[str, str], list[float]] = {}
    for target in facts.targets.values():
        if target.fresh:
            for gauges in _engine_gauges(target.window).values():
                for key, values in gauges.items():
                    gathered.setdefault(key, []).extend(values)
    return gathered


def _engine_gauges(window: TargetWindow) -> dict[str, dict[tuple[str, str], list[float]]]:
    """Engine -> (metric, label) -> its values on the latest page: one, or one of each replica behind the page."""
    gauges: dict[str, dict[tuple[str, str], list[float]]] = {}
    latest = window.latest
    if latest is not None:
        for series, value in zip(latest.layout.gauges, latest.gauges, strict=True):
            if value is not None:
                gauges.setdefault(series.engine, {}).setdefault((series.metric, series.label), []).append(value)
    return gauges


def _target_state(facts: TargetFacts, role: Role) -> TargetState:
    window, gained = facts.window, facts.gained
    gauges = _engine_gauges(window) if facts.fresh else {}
    names = {engine for engine in gained.engines if engine != TARGET_WIDE}
    if window.layout is not None:
        names |= set(window.layout.engines) - {TARGET_WIDE}
    engines = {
        engine: _engine_state(
            gained.engines.get(engine, Increase()), role, gained.covered_seconds, gauges.get(engine, {}), facts.fresh
        )
        for engine in sorted(names, key=_rank)
    }
    latest = window.latest
    return TargetState(
        up=facts.fresh and window.health.failed_since is None,
        age_s=facts.age_seconds,
        covered_s=gained.covered_seconds,
        engines=engines,
        problems=facts.problems,
        scrape_s=latest.took_seconds if latest else None,
        page_bytes=latest.page_bytes if latest else None,
        samples=latest.samples if latest else None,
        scrapes=window.health.scrapes,
        restarts=window.health.restarts,
        failures=dict(window.health.failures),
        error=window.health.error or None,
        multiprocess=latest.layout.multiprocess if latest else None,
        metric_names=dict(latest.layout.names) if latest else {},
    )


def _engine_state(gain: Increase, role: Role, seconds: float, gauges: Gauges, heard: bool) -> EngineState:
    found = latency.latencies(gain, role, heard=heard)
    return EngineState(
        latency=found,
        tpot_token_mean=latency.tpot_token_mean(gain, role),
        speculation=speculation(gain, padding(gain, role)),
        kv_transfer=kv_transfer(gain, role, seconds),
        load=load(gauges, gain),
        throughput=throughput(gain, seconds, found["tpot"]) if gain.counters else Throughput(),
        outcomes=outcomes(gain),
    )


def with_problems(pool: PoolFacts, problems: Mapping[str, list[str]]) -> PoolFacts:
    """The same facts with each target's problems, as short words."""
    targets = {
        name: replace(facts, problems=tuple(dict.fromkeys(problems.get(name, ()))))
        for name, facts in pool.targets.items()
    }
    return replace(pool, targets=targets)


def _rank(engine: str) -> tuple[int, str]:
    return (int(engine), engine) if is_rank(engine) else (1 << 30, engine)
