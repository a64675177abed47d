"""Problems on the walk that objectives walk: what stands at each evaluation comes in, what fires goes out.

A problem is there or it is not; that it is not there is only known where pdwatch can see. Of a target that does not
answer, and for the first minutes after a start, nothing is known, so that neither resolves anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent.errors import StateError
from agent.state import ProblemState
from agent.verdicts.alert_rules import PROCESS_CODES, AlertRule, alert_rule
from agent.verdicts.explains import SYSTEM
from agent.verdicts.judging import Signal
from agent.verdicts.status import Times, Track, step

SETTLE_SECONDS = 360.0
"""How long pages must have come until the rules with the longest look back (a frozen prefill engine) see again."""
BLIND_CODES = frozenset({"unreachable", "unusable_page", "stale"})
MOST_TEXTS = 5


class ProblemKey(NamedTuple):
    """What one walk is about: empty fields are not told apart (`agent.verdicts.alert_rules`)."""

    code: str
    scope: str
    target: str
    engine: str
    process: str
    severity: str


@dataclass(frozen=True, slots=True)
class Standing:
    """One walk now: `firing` or still pending, since when, and the sentences of the problems in it.

    `seen` False: whether it still stands cannot be told, since nobody can look there.
    """

    key: ProblemKey
    rule: AlertRule
    firing: bool
    since: float
    texts: tuple[str, ...]
    seen: bool = True

    @property
    def text(self) -> str:
        """All sentences, at most `MOST_TEXTS` of them written out."""
        more = len(self.texts) - MOST_TEXTS
        return "; ".join(self.texts[:MOST_TEXTS]) + (f"; and {more} more" if more > 0 else "")


class ProblemWalks:
    """`pool_of`: target -> pool; `gap_seconds`: as for objectives; `pools`: those that may have no target too."""

    def __init__(self, pool_of: Mapping[str, str], gap_seconds: float, pools: Collection[str] = ()) -> None:
        self._pool_of = pool_of
        self._pools = {*pools, *pool_of.values()}
        self._gap_seconds = gap_seconds
        self._tracks: dict[ProblemKey, Track] = {}
        self._texts: dict[ProblemKey, tuple[str, ...]] = {}
        self._unseen: set[ProblemKey] = set()
        self._began: float | None = None

    def retarget(self, pool_of: Mapping[str, str], gap_seconds: float, pools: Collection[str]) -> None:
        """Goes on with other targets; walks about those that are gone end at once, since nothing will be seen there."""
        left = {target for target, pool in self._pool_of.items() if pool_of.get(target) != pool}
        closed = self._pools - {*pools, *pool_of.values()}
        self._pool_of, self._pools, self._gap_seconds = pool_of, {*pools, *pool_of.values()}, gap_seconds
        for key in [key for key in self._tracks if key.target in left or key.scope in closed]:
            del self._tracks[key]
            self._texts.pop(key, None)

    def evaluate(self, problems: Iterable[ProblemState], now: float, untold: Collection[tuple[str, str]] = ()) -> None:
        """Takes all problems that stand at `now`; those of severity info are left alone.

        `untold`: (code, pool) of which this window cannot tell whether they still stand.
        """
        if self._began is None:
            self._began = now
        listed = list(problems)
        present = self._grouped(listed)
        worse = {key._replace(severity="warning") for key in present if key.severity == "critical"}
        blind = self._blind(listed)
        self._unseen = set()
        for key in [*present, *(key for key in self._tracks if key not in present)]:
            rule = alert_rule(key.code, whole_pool=not key.target)
            signal: Signal = "good"
            if key in present or key in worse:
                signal = "bad"
            elif (
                now - self._began < SETTLE_SECONDS
                or (key.code, key.scope) in untold
                or (key.code not in PROCESS_CODES and _unseen(key, blind))
            ):
                signal = "unknown"
                self._unseen.add(key)
            times = Times(rule.hold_seconds, rule.clear_seconds, self._gap_seconds)
            walked = step(self._tracks.get(key, Track()), signal, now, times)
            self._tracks[key] = walked.track
            if key in present:
                self._texts[key] = present[key]
            if walked.after not in ("pending", "firing"):
                del self._tracks[key]
                self._texts.pop(key, None)

    def standing(self, now: float) -> tuple[Standing, ...]:
        """Everything that fires or is pending."""
        return tuple(
            Standing(
                key,
                alert_rule(key.code, whole_pool=not key.target),
                track.fired_at is not None,
                track.since(now) or now,
                self._texts.get(key, ()),
                key not in self._unseen,
            )
            for key, track in self._tracks.items()
        )

    def shift(self, seconds: float) -> None:
        """Moves everything in time, after the wall clock was set by `seconds`."""
        self._tracks = {key: track.shifted(seconds) for key, track in self._tracks.items()}
        if self._began is not None:
            self._began += seconds

    def save(self) -> list[dict[str, Any]]:
        """What must survive a restart, as plain JSON."""
        return [
            {**key._asdict(), "track": track.to_json(), "texts": list(self._texts.get(key, ()))}
            for key, track in self._tracks.items()
        ]

    def restore(self, saved: object) -> None:
        """Goes on where `save` left off, without pools and targets that are gone. Raises StateError."""
        if not isinstance(saved, Sequence) or isinstance(saved, str):
            raise StateError("saved problems are no list; every problem starts anew")
        tracks: dict[ProblemKey, Track] = {}
        texts: dict[ProblemKey, tuple[str, ...]] = {}
        for entry in saved:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("track"), Mapping):
                raise StateError("saved problems hold something that is no status; every problem starts anew")
            key = ProblemKey(*(str(entry.get(name) or "") for name in ProblemKey._fields))
            if key.scope in {SYSTEM, *self._pools} and (not key.target or key.target in self._pool_of):
                tracks[key] = Track.from_json(entry["track"])
                lines = entry.get("texts")
                texts[key] = tuple(str(line) for line in lines) if isinstance(lines, list) else ()
        self._tracks, self._texts, self._began = tracks, texts, None

    def _grouped(self, problems: Iterable[ProblemState]) -> dict[ProblemKey, tuple[str, ...]]:
        texts: dict[ProblemKey, list[str]] = {}
        for problem in problems:
            if problem.severity != "info":
                texts.setdefault(self._key(problem), []).append(problem.text)
        return {key: tuple(dict.fromkeys(found)) for key, found in texts.items()}

    def _key(self, problem: ProblemState) -> ProblemKey:
        by = alert_rule(problem.code, whole_pool=not problem.target).by
        target = problem.target or ""
        scope = problem.pool or self._pool_of.get(target, "") or SYSTEM
        key = ProblemKey(
            problem.code,
            scope,
            target,
            problem.engine or "",
            problem.process or "",
            problem.severity,
        )
        if by == "system":
            return key._replace(scope=SYSTEM, target="", engine="", process="")
        if by == "pool":
            return key._replace(target="", engine="", process="")
        if by == "target":
            return key._replace(engine="", process="")
        return key if by == "process" else key._replace(process="")

    def _blind(self, problems: Iterable[ProblemState]) -> Mapping[str, Collection[str]]:
        """Target, or pool as a whole (when all its targets are) -> what it is blind by."""
        blind: dict[str, set[str]] = {}
        for problem in problems:
            if problem.code in BLIND_CODES and problem.target:
                blind.setdefault(_target_place(problem.target), set()).add(problem.code)
        for pool in self._pools:
            targets = [_target_place(target) for target, its_pool in self._pool_of.items() if its_pool == pool]
            if all(target in blind for target in targets):
                blind[_pool_place(pool)] = set().union(*(blind[target] for target in targets))
        return blind


def _unseen(key: ProblemKey, blind: Mapping[str, Collection[str]]) -> bool:
    """Whether the problem could stand unseen: its target, its pool, or any pool is blind by another code."""
    if key.target:
        places: Iterable[str] = (_target_place(key.target), _pool_place(key.scope))
    elif key.scope == SYSTEM:
        places = [place for place in blind if place.startswith("pool ")]
    else:
        places = (_pool_place(key.scope),)
    return any(set(blind.get(place, ())) - {key.code} for place in places)


def _target_place(target: str) -> str:
    return f"target {target}"


def _pool_place(pool: str) -> str:
    return f"pool {pool}"
