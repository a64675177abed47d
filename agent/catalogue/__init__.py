"""Every metric that pdwatch exports, once: name, kind, unit, labels, help. In: nothing. Out: `CATALOGUE`.

The single source for the metrics page, OTLP, dashboards, rules, `docs/metrics.md` and their tests. Names have base
units and no colon. Labels are what a series is about (pool, target, engine, process), never a value that changes.

What begins with `pdwatch_pool_`, `pdwatch_system_` or `pdwatch_engine_` looks back over `pdwatch_window_seconds` or
says how it is now. Counters and histograms only grow while pdwatch runs: a Prometheus may add those of many up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from agent.catalogue.cumulative import cumulative_rows
from agent.catalogue.host import memory_rows, target_rows
from agent.catalogue.metric import (
    HISTOGRAMS,
    LATENCIES,
    PERCENTILES,
    PREFIX,
    RECOVERED,
    Metric,
    MetricKind,
    Unit,
    group,
)
from agent.catalogue.own import own_rows
from agent.catalogue.service import engine_rows, objectives_rows, pool_rows, system_rows

__all__ = ["CATALOGUE", "HISTOGRAMS", "LATENCIES", "PERCENTILES", "PREFIX", "RECOVERED", "Metric", "MetricKind", "Unit"]


def _rows() -> Iterator[Metric]:
    yield from group("deployment", "", system_rows())
    yield from group("objectives", "objective_", objectives_rows())
    yield from group("pools, over the window", "pool_", pool_rows())
    yield from group("pools, cumulative", "", cumulative_rows())
    yield from group("engines, over the window", "engine_", engine_rows())
    yield from group("targets", "target_", target_rows())
    yield from group("memory of the servers' processes", "memory_", memory_rows())
    yield from group("pdwatch itself", "", own_rows())


CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _rows()})
"""Name -> metric, in the order of the page."""
