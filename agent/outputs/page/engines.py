"""Engines beside each other. In: a view. Out: one small card per engine; the odd one out is seen at once.

All bars of a pool have one scale, so that lengths can be compared across its cards.
"""

from __future__ import annotations

from collections.abc import Callable

from agent.outputs import numbers
from agent.outputs.page.charts import bar
from agent.outputs.page.html import Markup, el, join
from agent.outputs.page.view import View
from agent.outputs.page.words import Tone, icon, section
from agent.state import EngineState, PoolState
from agent.verdicts.wording import plural

MOST_ENGINES = 256

Number = Callable[[EngineState], float | None]


def _latency(name: str) -> Number:
    def mean(engine: EngineState) -> float | None:
        found = engine.latency.get(name)
        return found.mean if found is not None else None

    return mean


def _busy(engine: EngineState) -> float | None:
    return engine.load.running


def _waiting(engine: EngineState) -> float | None:
    return engine.load.waiting


def _kv(engine: EngineState) -> float | None:
    return engine.load.kv_usage_max


Row = tuple[str, Number, Callable[[float | None], str], bool]
"""Name, number, how it is written, and whether its scale is 0..1."""
_SHARED: tuple[Row, ...] = (
    ("running", _busy, numbers.count, False),
    ("waiting", _waiting, numbers.count, False),
    ("KV", _kv, numbers.share, True),
)
_ROWS: dict[str, tuple[Row, ...]] = {
    "prefill": (
        ("queue", _latency("queue"), numbers.seconds, False),
        ("prefill", _latency("prefill"), numbers.seconds, False),
        *_SHARED,
    ),
    "decode": (
        ("step", _latency("itl"), numbers.seconds, False),
        ("TPOT", _latency("tpot"), numbers.seconds, False),
        *_SHARED,
    ),
}


def engines(view: View) -> Markup:
    """The section."""
    parts = [_pool(view, name, pool) for name, pool in view.state.pools.items()]
    if not any(target.engines for pool in view.state.pools.values() for target in pool.targets.values()):
        return section("engines", "Engines", lead="Not known: no target has shown an engine yet.")
    return section(
        "engines", "Engines", *parts, lead="Means of the window, load of now. Bars of a pool share one scale."
    )


def _pool(view: View, name: str, pool: PoolState) -> Markup | None:
    found = [
        (target, engine, state) for target, shown in pool.targets.items() for engine, state in shown.engines.items()
    ]
    if not found:
        return None
    rows = _ROWS.get(pool.role, _ROWS["decode"])
    most = {row[0]: 1.0 if row[3] else max((row[1](each) or 0.0 for _, _, each in found), default=0.0) for row in rows}
    parts: list[Markup] = []
    for target in pool.targets:
        cells = [
            _cell(view, target, engine, state, rows, most)
            for owner, engine, state in found[:MOST_ENGINES]
            if owner == target
        ]
        if cells:
            parts.append(el("h4", target))
            parts.append(el("ul", *cells, class_="engines"))
    left = len(found) - MOST_ENGINES
    if left > 0:
        parts.append(el("p", f"and {plural(left, 'engine')} more: see the state", class_="quiet"))
    return join(el("h3", f"Pool {name}"), *parts)


def _cell(
    view: View, target: str, engine: str, state: EngineState, rows: tuple[Row, ...], most: dict[str, float]
) -> Markup:
    problems = view.problems_of(target, engine)
    tone: Tone | None = None
    if problems:
        tone = "bad" if any(each.severity == "critical" for each in problems) else "warn"
    title = el(
        "p",
        icon(tone) if tone else None,
        el("strong", f"engine {engine}"),
        " ",
        *(each.code.replace("_", " ") for each in problems[:1]),
        class_="name",
    )
    lines = []
    for word, number, written, _ in rows:
        value = number(state)
        share = value / most[word] if value is not None and most[word] > 0 else None if value is None else 0.0
        drawn = bar(
            f"engine {engine} of {target}, {word}: {written(value)}",
            f"{numbers.share(share)} of the longest bar.",
            share,
            height=6,
        )
        lines.append(el("div", el("dt", word), el("dd", drawn, el("span", written(value)))))
    return el("li", title, el("dl", *lines), class_=f"engine {tone or ''}".strip())
