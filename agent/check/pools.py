"""What pages say when they are held against each other. In: seen pools. Out: findings about pools and pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from agent.check.findings import Finding
from agent.check.seen import SeenPool, SeenTarget
from agent.model import Reading, SeriesKey


def pool_findings(pool: SeenPool) -> Iterator[Finding]:
    """What differs inside one pool."""
    where = (f"pool {pool.name}",)
    engines = _told(pool, lambda target: len(target.latest.layout.engines) if target.latest else None)
    if len(engines) > 1:
        text = f"different numbers of engines: {_listed(engines)}"
        yield Finding("engines_differ", "warning", where, text, "is one target missing engines, or a pool of its own?")
    models = _told(pool, lambda target: ", ".join(target.models) or None)
    if len(models) > 1:
        text = f"different models: {_listed(models)}"
        yield Finding("models_differ", "warning", where, text, "give each model its own deployment")
    versions = _told(pool, lambda target: target.answer.version)
    if len(versions) > 1:
        text = f"different versions of vLLM: {_listed(versions)}"
        help_ = "metrics and their meaning change between versions; finish the upgrade before numbers are compared"
        yield Finding("versions_differ", "warning", where, text, help_)
    mixed = sorted({metric for metric, edges in _edges(pool).items() if len(edges) > 1})
    if mixed:
        text = f"different bucket edges for {', '.join(mixed)}: only shared edges count"
        lengths = {"prompt_tokens", "generation_tokens", "max_tokens", "computed_tokens"}
        flag = "--max-model-len" if lengths.issuperset(mixed) else "--custom-histogram-buckets"
        help_ = f"start all servers of the pool with the same {flag}"
        yield Finding("mixed_buckets", "warning", where, text, help_)


def deployment_findings(pools: Sequence[SeenPool]) -> Iterator[Finding]:
    """What differs between pools, and addresses that lead to one server."""
    usable = [pool for pool in pools if pool.usable]
    where = tuple(f"pool {pool.name}" for pool in usable)
    models = {pool.name: {model for target in pool.usable for model in target.models} for pool in usable}
    for one, other in combinations([pool for pool in usable if models[pool.name]], 2):
        if not models[one.name] & models[other.name]:
            text = f"pool {one.name} serves {_names(models[one.name])}, pool {other.name} {_names(models[other.name])}"
            yield Finding("models_differ", "warning", where, text, "one deployment serves one model")
    versions = {target.answer.version for pool in usable for target in pool.usable if target.answer.version}
    inside = any(len(_told(pool, lambda target: target.answer.version)) > 1 for pool in usable)
    if len(versions) > 1 and not inside:
        text = f"pools run different versions of vLLM: {', '.join(sorted(versions))}"
        yield Finding("versions_differ", "warning", where, text, "KV hand-over is made for one version on both sides")
    pages = {target.name: _Pages.of(target) for pool in usable for target in pool.usable}
    for first, second in combinations(pages, 2):
        if pages[first].same_server(pages[second]):
            text = f"{first} and {second} lead to the same server: its requests are counted twice"
            help_ = "is one of them a service or balancer? give the address of each server once"
            yield Finding("same_process", "error", (first, second), text, help_)


@dataclass(frozen=True, slots=True)
class _Pages:
    """Start time and values of a target's first and last page."""

    started_seconds: float | None
    first: Mapping[tuple[SeriesKey, int], float]
    last: Mapping[tuple[SeriesKey, int], float]

    @classmethod
    def of(cls, target: SeenTarget) -> _Pages:
        return cls(target.started_seconds, _values(target.readings[0]), _values(target.readings[-1]))

    def same_server(self, other: _Pages) -> bool:
        """Whether the pages of two targets can only come from one server.

        Every count of one server lies, at any moment, between what any page said before and what any says after. Two
        servers with traffic of their own cannot agree so over all their counts and sums.
        """
        if self.started_seconds != other.started_seconds or self.first.keys() != other.first.keys():
            return False
        if not any(self.first.values()):
            return False
        return all(
            max(value, other.first[key]) <= min(self.last.get(key, inf), other.last.get(key, inf))
            for key, value in self.first.items()
        )


def _values(reading: Reading) -> dict[tuple[SeriesKey, int], float]:
    """Every count and sum of a page that only grows while requests succeed."""
    layout = reading.layout
    values = {(layout.counters[position], -1): value for position, value in reading.counters.items()}
    for position, histogram in reading.histograms.items():
        series = layout.histograms[position].series
        values.update({(series, bucket): count for bucket, count in enumerate(histogram.counts)})
        if histogram.total is not None and series.metric in ("ttft", "e2e", "itl", "decode"):
            values[series, -1] = histogram.total
    return values


def _told(pool: SeenPool, what: Callable[[SeenTarget], object]) -> dict[str, list[str]]:
    """What the pool's targets say -> the targets that say so; targets that say nothing are left out."""
    told: dict[str, list[str]] = {}
    for target in pool.usable:
        said = what(target)
        if said is not None:
            told.setdefault(str(said), []).append(target.name)
    return told


def _edges(pool: SeenPool) -> dict[str, set[tuple[float, ...]]]:
    found: dict[str, set[tuple[float, ...]]] = {}
    for target in pool.usable:
        for key in target.latest.layout.histograms if target.latest else ():
            found.setdefault(key.series.metric, set()).add(key.edges)
    return found


def _listed(told: dict[str, list[str]]) -> str:
    parts = []
    for said, names in sorted(told.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        parts.append(f"{said} ({', '.join(names[:3])}{more})")
    return "; ".join(parts)


def _names(models: set[str]) -> str:
    return ", ".join(sorted(models))
