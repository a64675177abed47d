"""The metrics page: samples come in, text or OpenMetrics goes out, through prometheus_client's own exposition.

The page is built anew for every scrape and nothing is registered globally, so a label that vanished from the state has
vanished from the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as Shown

from agent.catalogue import CATALOGUE, Metric
from agent.indicators.requests import Exemplar
from agent.outputs.sample import Buckets, Sample

_SUFFIXED_UNITS = ("seconds", "bytes", "ratio")
"""Units that OpenMetrics can declare, because the names end in them."""
MOST_EXEMPLAR_CHARACTERS = 128


def render(samples: Iterable[Sample], accept: str = "", deployment: str | None = None) -> tuple[bytes, str]:
    """(body, content type) in the form that the Accept header asks for; `deployment` is a label of every series."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(samples, deployment))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Page(Collector):
    """Collects once: one family per catalogued metric that has a sample, in the catalogue's order."""

    def __init__(self, samples: Iterable[Sample], deployment: str | None) -> None:
        self._samples = samples
        self._common = {"deployment": _printable(deployment)} if deployment else {}

    def describe(self) -> Iterator[Family]:
        return iter(())

    def collect(self) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for metric, values, value in self._samples:
            family = families.get(metric.name)
            if family is None:
                family = families[metric.name] = _family(metric)
            labels = self._common.copy()
            for label, text in zip(metric.labels, values, strict=True):
                if text:
                    labels[label] = text if text.isascii() else _printable(text)
            if isinstance(value, Buckets):
                _add_buckets(family, labels, value)
            else:
                family.add_sample(metric.name, labels, value)
        return (families[name] for name in CATALOGUE if name in families)


def _family(metric: Metric) -> Family:
    name = metric.name
    if metric.kind in ("counter", "info"):
        name = name.removesuffix("_total").removesuffix("_info")
    unit = metric.unit if metric.unit in _SUFFIXED_UNITS and name.endswith(f"_{metric.unit}") else ""
    return Family(name, metric.help, metric.kind, unit)


def _add_buckets(family: Family, labels: dict[str, str], histogram: Buckets) -> None:
    below = 0.0
    edges = [*map(repr, map(float, histogram.edges)), "+Inf"]
    exemplars = histogram.exemplars or (None,) * len(edges)
    for edge, count, exemplar in zip(edges, histogram.counts, exemplars, strict=True):
        below += count
        # A span may come before the page that counts its request: an empty bucket has no example.
        shown = _exemplar(exemplar) if exemplar is not None and count else None
        family.add_sample(f"{family.name}_bucket", {**labels, "le": edge}, below, exemplar=shown)
    if histogram.total is not None:  # OpenMetrics has the two together or not at all; +Inf carries the count
        family.add_sample(f"{family.name}_count", labels, below)
        family.add_sample(f"{family.name}_sum", labels, histogram.total)


def _exemplar(request: Exemplar) -> Shown:
    """Only OpenMetrics has room for it. The specification allows names and values of 128 characters together."""
    named = {"trace_id": request.trace, "request": _printable(request.request)}
    fits = request.request and sum(len(name) + len(text) for name, text in named.items()) <= MOST_EXEMPLAR_CHARACTERS
    return Shown(named if fits else {"trace_id": request.trace}, request.value, request.at)


def _printable(text: str) -> str:
    """What cannot be written as UTF-8 (lone surrogates from a foreign command line) becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
