"""Samples of catalogued metrics and how they are made. In: values, unknown or not. Out: samples of the known ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from agent.catalogue import CATALOGUE, PREFIX, Metric
from agent.indicators.requests import Exemplar


class Buckets(NamedTuple):
    """A histogram: finite `edges`, `counts` per bucket (one more), `total` None when it cannot be trusted.

    `exemplars`: for each bucket a request that lies in it, or None; empty where none is known.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float | None
    exemplars: tuple[Exemplar | None, ...] = ()


class Sample(NamedTuple):
    """One series' value; `labels` are the values of the metric's labels, in its order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Buckets


def known(name: str, labels: tuple[str, ...], value: float | None) -> Iterator[Sample]:
    """The sample, unless its value is unknown. The name is looked up, so it must be in the catalogue."""
    metric = CATALOGUE[PREFIX + name]
    if value is not None and math.isfinite(value):
        yield Sample(metric, labels, value)


Table = tuple[tuple[Metric, Callable[[Any], float | None]], ...]


def table(prefix: str, rows: Mapping[str, str]) -> Table:
    """Metric and how its value is taken out of the state, from a mapping of name to attribute path."""
    return tuple((CATALOGUE[PREFIX + prefix + name], attrgetter(path)) for name, path in rows.items())


def from_table(rows: Table, labels: tuple[str, ...], source: object) -> Iterator[Sample]:
    """The known values of `source`, all under the same labels."""
    for metric, value_of in rows:
        value = value_of(source)
        if value is not None and math.isfinite(value):
            yield Sample(metric, labels, value)
