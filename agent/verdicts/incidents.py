"""One incident, one page: what fires comes in at each evaluation, the alerts that should be active go out.

    incidents = Incidents(config)
    incidents.evaluate(verdicts, problems, now)              # once per scrape interval, after the objectives
    incidents.alerts                                         # active ones, and those that ended within 15 min
    saved = incidents.save(); incidents.restore(saved)       # across a restart: nothing lost, nothing repeated

Of things that belong together (`explains`) the first to fire is told, and the others, unless graver, are attached to
its text instead of being sent beside it. What was told stays told until it ends by itself. What was held back is told
later only if it outlives the alert that held it back by more than its own window and clear time, and is broken then: a
mean over five minutes is still bad minutes after the cause is gone, and one that is met again only waits to be cleared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.config import Config
from agent.errors import StateError
from agent.state import ProblemState, VerdictState
from agent.verdicts.alert import Alert, identity_of, is_time
from agent.verdicts.alert_rules import PROCESS_CODES
from agent.verdicts.alert_texts import AlertTexts, firing_tiers, with_attached
from agent.verdicts.budgets import BudgetState
from agent.verdicts.explains import Matter, Relations
from agent.verdicts.objectives import Key, gap_of, key_of
from agent.verdicts.problem_walks import BLIND_CODES, ProblemWalks, Standing
from agent.verdicts.status import RESOLVED_SECONDS

WINDOW_SECONDS = 300.0
"""How far back most problems look."""
HIDING_CODES = BLIND_CODES | {"process_gone"}
"""A server that has gone hides what was wrong with it before: that alert cannot speak for this new one."""
FORMAT = 1
_RANK = {"critical": 0, "warning": 1}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that fires (or, as a problem, is about to) and could be told. `linger_seconds`: see the file's text.

    `broken` False: an objective that still fires and is not seen broken now. `seen` False: see `Standing`.
    """

    matter: Matter
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    since: float
    linger_seconds: float
    firing: bool = True
    broken: bool = True
    seen: bool = True

    @property
    def identity(self) -> str:
        return identity_of(self.labels)

    @property
    def rank(self) -> int:
        """0 is the gravest."""
        return _RANK.get(self.labels["severity"], len(_RANK))

    @property
    def order(self) -> tuple[int, bool, float, str]:
        """Grave ones first, promises before problems, then the oldest."""
        return self.rank, bool(self.matter.code), self.since, self.identity


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A firing thing that is not told since another alert, `by`, tells of its incident; last so at `at`."""

    labels: Mapping[str, str]
    by: str
    at: float


class Incidents:
    """All alerts of one deployment, as `mode` lets this pdwatch send them."""

    def __init__(self, config: Config) -> None:
        self._take(config)
        self._walks = ProblemWalks(self._pool_of, gap_of(config), self._pools)
        self._active: dict[str, Alert] = {}
        self._ended: dict[str, Alert] = {}
        self._held_back: dict[str, HeldBack] = {}

    def retarget(self, config: Config) -> None:
        """Goes on with another configuration. Alerts about targets, pools and objectives that are gone end."""
        self._take(config)
        self._walks.retarget(self._pool_of, gap_of(config), self._pools)

    def _take(self, config: Config) -> None:
        self._config = config
        self._texts = AlertTexts(config)
        self._relations = Relations({pool.name: pool.role for pool in config.pools})
        self._pool_of = {target.name: pool.name for pool in config.pools for target in pool.targets}
        self._pools = {pool.name for pool in config.pools}

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Active alerts, then those that ended in the last 15 minutes (with `ends_at`), as of the last evaluation."""
        return (*self._active.values(), *self._ended.values())

    @property
    def held_back(self) -> Mapping[str, HeldBack]:
        """Identity -> what fires and is not told now, and the identity of the alert it is attached to."""
        return self._held_back

    def evaluate(
        self,
        verdicts: Sequence[VerdictState],
        problems: Iterable[ProblemState],
        now: float,
        *,
        sentences: Mapping[Key, str] | None = None,
        budgets: Sequence[BudgetState] = (),
        untold: Collection[tuple[str, str]] = (),
    ) -> tuple[Alert, ...]:
        """All alerts at `now`. `sentences`: (objective, scope) -> what its verdict says. `untold`: (code, pool) of
        problems of which the window does not tell whether they still stand.
        """
        self._walks.evaluate(problems, now, untold)
        candidates = self._candidates(verdicts, sentences or {}, budgets, now)
        firing = {candidate.identity: candidate for candidate in candidates if candidate.firing}
        self._end(firing, {(verdict.objective, verdict.scope) for verdict in verdicts}, now)
        for identity in list(self._held_back):
            if identity not in firing:
                del self._held_back[identity]
        for candidate in sorted(firing.values(), key=lambda found: found.order):
            if candidate.identity not in self._active:
                self._tell_or_hold_back(candidate, firing, candidates, now)
        self._refresh(firing, candidates)
        return self.alerts

    def shift(self, seconds: float) -> None:
        """Moves what is measured in time, after the wall clock was set by `seconds`. What was told stays as told."""
        self._walks.shift(seconds)
        self._held_back = {key: replace(held, at=held.at + seconds) for key, held in self._held_back.items()}

    def save(self) -> dict[str, Any]:
        """What must survive a restart, as plain JSON."""
        return {
            "format": FORMAT,
            "problems": self._walks.save(),
            "alerts": [alert.to_json() for alert in self.alerts],
            "held_back": [{"labels": dict(h.labels), "by": h.by, "at": h.at} for h in self._held_back.values()],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Goes on where `save` left off. Raises StateError, with nothing changed, where the data are damaged."""
        if not isinstance(saved, Mapping):
            raise StateError("saved alerts are not what this version writes; alerts start anew")
        alerts, held = saved.get("alerts"), saved.get("held_back")
        if saved.get("format") != FORMAT or not isinstance(alerts, list) or not isinstance(held, list):
            raise StateError(f"saved alerts have format {saved.get('format')!r}, this version reads {FORMAT}")
        found = [Alert.from_json(entry) for entry in alerts]
        held_back = {}
        for entry in held:
            if (
                not isinstance(entry, Mapping)
                or not isinstance(entry.get("labels"), Mapping)
                or not is_time(entry.get("at"))
            ):
                raise StateError("saved alerts hold something held back that is none; alerts start anew")
            labels = {str(name): str(value) for name, value in entry["labels"].items()}
            held_back[identity_of(labels)] = HeldBack(labels, str(entry.get("by")), float(entry["at"]))
        self._walks.restore(saved.get("problems"))
        self._active = {alert.identity: alert for alert in found if alert.ends_at is None}
        self._ended = {alert.identity: alert for alert in found if alert.ends_at is not None}
        self._held_back = held_back

    def _candidates(
        self,
        verdicts: Sequence[VerdictState],
        sentences: Mapping[Key, str],
        budgets: Sequence[BudgetState],
        now: float,
    ) -> list[Candidate]:
        found = [self._of_problem(standing) for standing in self._walks.standing(now)]
        if self._config.mode == "sidecar":
            return [candidate for candidate in found if candidate.matter.code in PROCESS_CODES]
        configured = {key_of(objective): objective for objective in self._config.objectives}
        for verdict in verdicts:
            key = (verdict.objective, verdict.scope)
            if verdict.status == "firing" and key in configured:
                objective = configured[key]
                cause = str(verdict.cause.get("code", "")) if verdict.cause else ""
                matter = Matter(objective.scope, objective=objective.name, indicator=objective.indicator, cause=cause)
                texts = self._texts.objective_annotations(objective, verdict, sentences.get(key, ""))
                linger = objective.window_seconds + objective.clear_seconds
                since = now if verdict.since is None else verdict.since
                labels, broken = self._texts.objective_labels(objective), verdict.verdict == "breached"
                found.append(Candidate(matter, labels, texts, since, linger, broken=broken))
        for state in budgets:
            if (state.objective, state.scope) not in configured:
                continue
            objective = configured[state.objective, state.scope]
            for severity, tiers in firing_tiers(state).items():
                matter = Matter(objective.scope, objective=objective.name, indicator=objective.indicator)
                linger = max(tier.tier.short_seconds for tier in tiers) + objective.clear_seconds
                labels = self._texts.budget_labels(objective, severity)
                texts = self._texts.budget_annotations(objective, tiers)
                since = min((tier.since for tier in tiers if tier.since is not None), default=now)
                found.append(Candidate(matter, labels, texts, since, linger))
        return found

    def _of_problem(self, standing: Standing) -> Candidate:
        key = standing.key
        return Candidate(
            Matter(key.scope, code=key.code, target=key.target),
            self._texts.problem_labels(standing),
            self._texts.problem_annotations(standing),
            standing.since,
            WINDOW_SECONDS + standing.rule.clear_seconds,
            standing.firing,
            seen=standing.seen,
        )

    def _end(self, firing: Mapping[str, Candidate], judged: set[Key], now: float) -> None:
        configured = {key_of(objective) for objective in self._config.objectives}
        for identity, alert in list(self._active.items()):
            key = (alert.labels.get("objective", ""), alert.labels.get("scope", ""))
            # After a start an objective that is not judged yet is neither good nor bad.
            waits = key in configured and key not in judged and self._config.mode == "central"
            if identity not in firing and not waits:
                del self._active[identity]
                self._ended[identity] = replace(alert, ends_at=max(now, alert.starts_at))
        self._ended = {
            identity: alert
            for identity, alert in self._ended.items()
            if alert.ends_at is not None and abs(now - alert.ends_at) < RESOLVED_SECONDS
        }

    def _tell_or_hold_back(
        self, candidate: Candidate, firing: Mapping[str, Candidate], candidates: Sequence[Candidate], now: float
    ) -> None:
        identity = candidate.identity
        held = self._held_back.get(identity)
        for told in self._active:
            leader = firing.get(told)
            if leader is None:
                # After a start the alert that this one is attached to may not be judged yet: it stays attached.
                joined = held is not None and held.by == told
            else:
                joined = leader.rank <= candidate.rank and self._one_incident(leader, candidate, candidates)
                if held is None and not leader.seen and candidate.matter.code in HIDING_CODES:
                    joined = False
            if joined:
                self._held_back[identity] = HeldBack(candidate.labels, told, now)
                return
        if held is not None and (not candidate.broken or now - held.at < candidate.linger_seconds):
            return
        self._held_back.pop(identity, None)
        self._ended.pop(identity, None)
        self._active[identity] = Alert(candidate.labels, now if held is not None else candidate.since, {})

    def _one_incident(self, one: Candidate, other: Candidate, candidates: Sequence[Candidate]) -> bool:
        if self._relations.belong(one.matter, other.matter):
            return True
        if one.matter.code or other.matter.code:
            return False
        # Two promises, broken by one thing that stands.
        return any(
            self._relations.explains(problem.matter, one.matter)
            and self._relations.explains(problem.matter, other.matter)
            for problem in candidates
            if problem.matter.code
        )

    def _refresh(self, firing: Mapping[str, Candidate], candidates: Sequence[Candidate]) -> None:
        """Texts as of now; what belongs to an alert and is not told by itself is told with it."""
        for identity, alert in self._active.items():
            candidate = firing.get(identity)
            if candidate is None:
                continue
            attached = [
                other.annotations["description"].rstrip(".")
                for other in sorted(candidates, key=lambda found: found.order)
                if other.firing
                and other.identity not in self._active
                and other.annotations.get("description")
                and self._one_incident(candidate, other, candidates)
            ]
            self._active[identity] = replace(alert, annotations=with_attached(candidate.annotations, attached))
