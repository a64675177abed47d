"""PromQL on pdwatch's own metrics. In: names of the catalogue and of board variables. Out: expressions.

A name that the catalogue lacks is an error here and not an empty panel later. Replicas of pdwatch see the same fleet:
of one series that several of them export the largest is shown, and two are never added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.catalogue import CATALOGUE, PREFIX, Metric

DEPLOYMENT = "deployment"
RATE_WINDOW = "$__rate_interval"


class Own:
    """pdwatch's metrics, filtered by a board's variables.

    `variables`: label -> name of the variable that chooses its values; the deployment is always one of them.
    """

    def __init__(self, **variables: str) -> None:
        self._variables: Mapping[str, str] = {DEPLOYMENT: DEPLOYMENT, **variables}

    def series(self, name: str, *, suffix: str = "", **fixed: str) -> str:
        """The series themselves: `pdwatch_NAME{...}`. `fixed`: a label's value, or its pattern after a `~`."""
        metric = self._metric(name)
        allowed = (*metric.labels, DEPLOYMENT, "le")
        unknown = set(fixed) - set(allowed)
        if unknown:
            raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
        matchers = [
            f'{label}=~"${variable}"'
            for label, variable in self._variables.items()
            if label not in fixed and label in allowed
        ]
        scope = self._variables.get("pool")
        if scope is not None and "scope" in metric.labels and "scope" not in fixed:
            matchers.append(f'scope=~"${scope}|system"')
        matchers += [
            f'{label}=~"{value[1:]}"' if value.startswith("~") else f'{label}="{value}"'
            for label, value in fixed.items()
        ]
        return f"{metric.name}{suffix}{{{','.join(matchers)}}}"

    def now(self, name: str, by: Iterable[str] | None = None, **fixed: str) -> str:
        """A gauge, one series for each set of the labels `by` (all that the metric has, unless given)."""
        return f"max by ({self._by(name, by)}) ({self.series(name, **fixed)})"

    def least(self, name: str, by: Iterable[str] | None = None, **fixed: str) -> str:
        """The same where the smallest value is the gravest, such as time that is left."""
        return f"min by ({self._by(name, by)}) ({self.series(name, **fixed)})"

    def rate(self, name: str, by: Iterable[str] | None = None, **fixed: str) -> str:
        """A counter, per second."""
        return self._over("rate", name, RATE_WINDOW, by, fixed)

    def increase(self, name: str, window: str, by: Iterable[str] | None = None, **fixed: str) -> str:
        """A counter's increase over a window such as `$__range`."""
        return self._over("increase", name, window, by, fixed)

    def summed(self, name: str, by: Iterable[str], **fixed: str) -> str:
        """A gauge added over the labels that are not in `by`, each series once, however many replicas export it."""
        return f"sum by ({', '.join((DEPLOYMENT, *by))}) ({self.now(name, **fixed)})"

    def buckets(self, name: str) -> str:
        """Observations per second in each bucket of a histogram, all chosen pools added."""
        self._metric(name, "histogram")
        series = self.series(name, suffix="_bucket")
        return f"sum by (le) (max by (deployment, pool, le) (rate({series}[{RATE_WINDOW}])))"

    def mean_over_pools(self, word: str) -> str:
        """Exact mean over all chosen pools of a latency: the pools' means, weighted by their observations."""
        mean, count = (self.now(f"{word}_{part}") for part in ("mean_seconds", "observations"))
        weighted = f"sum by ({DEPLOYMENT}) ({mean} * {count})"
        return f"{weighted} / (sum by ({DEPLOYMENT}) ({count}) > 0)"

    def _over(self, function: str, name: str, window: str, by: Iterable[str] | None, fixed: Mapping[str, str]) -> str:
        metric = self._metric(name, "counter")
        each = (
            f"max by ({', '.join((DEPLOYMENT, *metric.labels))}) ({function}({self.series(name, **fixed)}[{window}]))"
        )
        if by is None or tuple(by) == metric.labels:
            return each
        return f"sum by ({self._by(name, by)}) ({each})"

    def _by(self, name: str, by: Iterable[str] | None) -> str:
        labels = self._metric(name).labels
        wanted = labels if by is None else tuple(by)
        if not set(wanted) <= set(labels):
            raise ValueError(f"{PREFIX}{name} has the labels {labels}, not {wanted}")
        return ", ".join((DEPLOYMENT, *wanted))

    @staticmethod
    def _metric(name: str, kind: str | None = None) -> Metric:
        metric = CATALOGUE[PREFIX + name]
        if kind is not None and metric.kind != kind:
            raise ValueError(f"{metric.name} is a {metric.kind}, not a {kind}")
        return metric


def coded(own: Own, name: str, label: str, codes: Mapping[str, int]) -> str:
    """A number for the word that a series has under `label`, the gravest first: what a state timeline can show."""
    gravest_first = sorted(codes.items(), key=lambda item: -item[1])
    by = [one for one in CATALOGUE[PREFIX + name].labels if one != label]
    return "\nor\n".join(f"{own.now(name, by, **{label: word})} * {code}" for word, code in gravest_first)
