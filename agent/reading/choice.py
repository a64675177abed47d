"""Which families of a page are read. In: a scanned page. Out: one family per logical metric, never two.

A server that is told to show hidden metrics has the same events under an old and a new name; the type comes from the
page's TYPE lines, never from the ending of a name (`vllm:iteration_tokens_total` is a histogram).
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.reading.names import RAY_SPELLINGS, SampleName
from agent.reading.scan import Family, Scan

_UNTYPED = ("untyped", "unknown")


def chosen(page: Scan) -> list[Family]:
    """Return the best alias of each logical metric that has samples and the right type, in page order.

    A family of another type is noted among the page's problems.
    """
    best: dict[str, Family] = {}
    for family in page.families.values():
        declared = _declared(family, page.types)
        if declared is not None and not _fits(family, declared):
            kind = family.name.kind
            page.problems.add(f"{family.family} is declared a {declared}, not a {kind}: not read")
            continue
        rival = best.get(family.name.key)
        if rival is None or family.rank < rival.rank:
            best[family.name.key] = family
    return sorted(best.values(), key=lambda family: family.lines[0].number)


def names_of(families: list[Family], page: Scan, declarable: Mapping[str, SampleName]) -> dict[str, str]:
    """Return logical metric -> family on the page, for what is read and what is declared without a sample yet."""
    names = {family.name.key: family.family for family in families}
    for declared in page.types:
        sample = declarable.get(declared)
        if sample is not None and sample.family not in page.families:
            names.setdefault(sample.name.key, sample.family)
    return names


def _declared(family: Family, types: Mapping[str, str]) -> str | None:
    declared = types.get(family.family)
    if declared is None and family.name.kind == "counter":
        # OpenMetrics declares a counter without the ending that its samples have.
        declared = types.get(family.family.removesuffix("_total"))
    return declared


def _fits(family: Family, declared: str) -> bool:
    kind = family.name.kind
    if declared == kind or declared in _UNTYPED or kind == "info":
        return True
    # Ray Serve can export vLLM's counters as gauges; they still only grow.
    return kind == "counter" and declared == "gauge" and any(ray in family.family for ray in RAY_SPELLINGS)
