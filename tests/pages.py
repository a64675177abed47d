"""Metrics pages written by hand: a page is a list of families, rendered as vLLM's servers render them.

page(counter("generation_tokens_total", 2300), histogram("time_to_first_token_seconds", {0.1: 50}, total=4.0))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

MODEL = "demo"


def _labels(engine: str | None, extra: Mapping[str, str]) -> str:
    labels = dict(extra) | ({"engine": engine, "model_name": MODEL} if engine is not None else {})
    return "{" + ",".join(f'{name}="{labels[name]}"' for name in sorted(labels)) + "}" if labels else ""


def counter(name: str, value: float, engine: str | None = "0", **labels: str) -> str:
    """`name` as on the page, e.g. vllm:generation_tokens_total."""
    return f"# TYPE {name} counter\n{name}{_labels(engine, labels)} {float(value)!r}\n"


def gauge(name: str, value: float, engine: str | None = "0", **labels: str) -> str:
    return f"# TYPE {name} gauge\n{name}{_labels(engine, labels)} {value!r}\n"


def histogram(
    name: str, cumulative: Mapping[float, float], total: float, engine: str | None = "0", **labels: str
) -> str:
    """`cumulative`: upper edge -> observations at or below it; +Inf is the largest count when it is missing."""
    counts = dict(cumulative)
    counts.setdefault(math.inf, max(counts.values(), default=0.0))
    lines = [f"# TYPE {name} histogram"]
    for edge in sorted(counts):
        le = "+Inf" if edge == math.inf else repr(float(edge))
        lines.append(f"{name}_bucket{_labels(engine, {**labels, 'le': le})} {float(counts[edge])!r}")
    lines.append(f"{name}_sum{_labels(engine, labels)} {float(total)!r}")
    lines.append(f"{name}_count{_labels(engine, labels)} {float(counts[math.inf])!r}")
    return "\n".join(lines) + "\n"


def page(*families: str) -> str:
    """One page; families of the same name but other engines are put under one TYPE line."""
    blocks: dict[str, list[str]] = {}
    for family in families:
        head, _, rest = family.partition("\n")
        blocks.setdefault(head, []).append(rest)
    return "".join(f"{head}\n{''.join(rests)}" for head, rests in blocks.items())


def zeroed(text: str) -> str:
    """The same page before anything happened: every value 0."""
    lines = [line if line.startswith("#") else line.rsplit(" ", 1)[0] + " 0.0" for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def families(names: Sequence[str], value: float) -> str:
    """Several counters of engine 0 with one value."""
    return page(*(counter(name, value) for name in names))
