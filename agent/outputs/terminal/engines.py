"""The engines as a sortable table. In: the document's pools, a view. Out: its rows, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rich.text import Text

from agent.outputs.terminal import words
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.layout import Cell, Column, table
from agent.outputs.terminal.view import View

OLD_SECONDS = 30.0
_SORTED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "t": ("latency", "tpot", "mean"),
        "f": ("latency", "ttft", "mean"),
        "r": ("load", "running"),
        "w": ("load", "waiting"),
        "k": ("load", "kv_usage_max"),
        "a": ("speculation", "acceptance_length"),
        "g": ("throughput", "generation_tokens_per_s"),
    }
)
"""Sort key -> where its number stands in an engine. `n`, the name, has none."""
_COLUMNS = (
    ("n", Column("ENGINE")),
    ("", Column("AGE", 9)),
    ("t", Column("TPOT", 8)),
    ("", Column("STEP", 3)),
    ("f", Column("TTFT", 7)),
    ("r", Column("RUN", 6)),
    ("w", Column("WAIT", 6)),
    ("k", Column("KV", 5)),
    ("a", Column("ACCEPT", 4)),
    ("g", Column("TOK/S", 2)),
    ("", Column("PREEMPT", 1)),
)


@dataclass(frozen=True, slots=True)
class Engine:
    """One rank, or a target of which no rank is known."""

    name: str
    target: Part
    numbers: Part


def engines_of(document: Part) -> list[Engine]:
    """Every engine of every pool; a target without any stands for itself."""
    found = []
    for _, pool in document.items("pools"):
        for target_name, target in pool.items("targets"):
            ranks = target.items("engines")
            several = len(ranks) > 1
            found += [Engine(f"{target_name}/{rank}" if several else target_name, target, part) for rank, part in ranks]
            if not ranks:
                found.append(Engine(target_name, target, Part()))
    return found


def ordered(engines: Sequence[Engine], view: View) -> list[Engine]:
    """By the view's key; of equal ones by name; what is not known comes last."""
    place = _SORTED_BY.get(view.sort)
    if place is None:
        return sorted(engines, key=lambda engine: _natural(engine.name), reverse=view.turned)
    sign = -1.0 if view.descending else 1.0

    def key(engine: Engine) -> tuple[bool, float, list[tuple[int, str]]]:
        number = engine.numbers.number(*place)
        return number is None, sign * (number or 0.0), _natural(engine.name)

    return sorted(engines, key=key)


def engine_lines(document: Part, view: View, width: int, waited: float, first: int, most: int | None) -> list[Text]:
    """The head and the rows from `first` on. `waited`: seconds since the document came. Nothing without engines."""
    engines = ordered(engines_of(document), view)
    if not engines:
        return []
    shown = engines[first:] if most is None else engines[first : first + most]
    arrow = "▼" if view.descending else "▲"
    columns = [
        Column(f"{column.title}{arrow}" if key == view.sort else column.title, column.importance, column.left)
        for key, column in _COLUMNS
    ]
    return table(columns, [_row(engine, waited) for engine in shown], width)


def _row(engine: Engine, waited: float) -> list[Cell]:
    target, part = engine.target, engine.numbers
    is_down = target.says("up") is False
    age = target.number("age_s")
    age = None if age is None else age + waited
    is_old = age is not None and age > OLD_SECONDS
    stale = "red" if is_down else "dim" if is_old else ""
    name = f"{engine.name} {target.text('error')}".rstrip() if is_down else engine.name
    seconds: Callable[[str], str] = lambda name: words.seconds(part.number("latency", name, "mean"))  # noqa: E731
    return [
        Cell(name, stale),
        Cell("down" if is_down else words.age(age), "bold red" if is_down else "yellow" if is_old else ""),
        Cell(seconds("tpot"), stale or "bold"),
        Cell(seconds("itl"), stale),
        Cell(seconds("ttft"), stale),
        Cell(words.count(part.number("load", "running")), stale),
        Cell(words.count(part.number("load", "waiting")), stale),
        Cell(words.share(part.number("load", "kv_usage_max")), stale),
        Cell(words.digits(part.number("speculation", "acceptance_length")), stale),
        Cell(words.digits(part.number("throughput", "generation_tokens_per_s")), stale),
        Cell(words.count(part.number("load", "preemptions")), stale),
    ]


def _natural(name: str) -> list[tuple[int, str]]:
    """decode-2 before decode-10."""
    parts, digits, letters = [], "", ""
    for character in f"{name}/":
        if character.isascii() and character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((int(digits), letters))
            digits = letters = ""
        letters += character
    return [*parts, (-1, letters)]
