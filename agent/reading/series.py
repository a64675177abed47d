"""What a line's labels say in our words. In: lines of one family. Out: their engines and series keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agent.model import TARGET_WIDE, SeriesKey
from agent.reading.name import ALL_LABELS
from agent.reading.scan import UNLABELLED_ENGINE, Family, Line

MOST_RANK_DIGITS = 18


def engine_of(family: Family, line: Line) -> str:
    """Return the engine a line belongs to; pages from before the `engine` label have one, called "0"."""
    return line.labels.given.get("engine", UNLABELLED_ENGINE) if family.name.per_engine else TARGET_WIDE


def in_order(engines: Iterable[str]) -> tuple[str, ...]:
    """Return engines by rank, and after them those that are no numbers."""
    return tuple(sorted(engines, key=lambda e: (0, int(e), e) if is_rank(e) else (1, 0, e)))


def is_rank(label: str) -> bool:
    """Whether a label (an engine, a draft position) is a number, of a size that numbers of things have."""
    return label.isdecimal() and len(label) <= MOST_RANK_DIGITS


def shows_replicas(family: Family) -> bool:
    """Whether an engine of this family has a series twice: then several servers stand behind the page (Ray's)."""
    if not family.name.per_engine or family.name.raw_labels or family.name.kind == "info":
        return False
    uses = Counter(_plain_keys(family, [lines[0] for lines in by_child(family)]))
    return len(uses) < uses.total()


def keys_of(family: Family, lines: list[Line], replicas: bool = False) -> list[SeriesKey]:
    """Return the key of each line, one line per series.

    `replicas`: every series of an engine carries the rest of its labels, those too that only one replica has, so that
    it keeps its key whichever the others have. Series that would share a key otherwise are told apart the same way.
    """
    keys = _plain_keys(family, lines)
    if replicas and family.name.per_engine:
        return [key._replace(raw=_text(line, _rest(family, line))) for key, line in zip(keys, lines, strict=True)]
    uses = Counter(keys)
    if len(uses) == len(keys):
        return keys
    return [
        key if uses[key] == 1 else key._replace(raw=_text(line, _rest(family, line)))
        for key, line in zip(keys, lines, strict=True)
    ]


def _plain_keys(family: Family, lines: list[Line]) -> list[SeriesKey]:
    name = family.name
    return [
        SeriesKey(
            engine_of(family, line),
            name.metric,
            line.labels.given.get(name.own_label, "") if name.own_label else "",
            _text(line, _rest(family, line) if name.raw_labels == ALL_LABELS else name.raw_labels),
        )
        for line in lines
    ]


def _rest(family: Family, line: Line) -> Iterable[str]:
    """Every label but those that are in the key already."""
    return line.labels.given.keys() - {"engine", family.name.own_label}


def by_child(family: Family) -> list[list[Line]]:
    """Return the family's lines, those of one series together."""
    children: dict[int, list[Line]] = {}
    for line in family.lines:
        children.setdefault(line.labels.child, []).append(line)
    return list(children.values())


def _text(line: Line, names: Iterable[str]) -> str:
    given = line.labels.given
    return ",".join(f'{name}="{given[name]}"' for name in sorted(names) if name in given)
