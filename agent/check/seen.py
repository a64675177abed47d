"""What the targets answered, as the checks look at it. In: a configuration, answers. Out: `SeenPool`s.

Pure: two pages of each target, some seconds apart, give what it counted since it started and what happened in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.config import Config
from agent.errors import NotVllm, PageError
from agent.model import FailureObservation, PageObservation, Reading, Role
from agent.reading.page import PageReader
from agent.windows.increase import HistogramIncrease, Increase, merged
from agent.windows.target import TargetWindow

_MODEL = re.compile(r'[{,]model_name="((?:[^"\\]|\\.)*)"')
_SCANNED_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What one target said: pages and failures in time order, and the version it gave under /version, if any."""

    target: str
    observations: tuple[PageObservation | FailureObservation, ...]
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Between:
    """What one target gained between its two pages. `inconsistent`: why nothing can be said, else ""."""

    seconds: float
    increase: Increase
    inconsistent: str = ""


@dataclass(frozen=True, slots=True)
class SeenTarget:
    """One target. `readings` are complete, one per usable page; `refused` is what made a page unusable as a whole."""

    name: str
    pool: str
    role: Role
    answer: Answer
    readings: tuple[Reading, ...] = ()
    refused: PageError | None = None
    models: tuple[str, ...] = ()
    between: Between | None = None
    lifetime: Increase = field(default_factory=Increase)
    """All that its last page counts, over its engines."""

    @property
    def failures(self) -> list[FailureObservation]:
        return [one for one in self.answer.observations if isinstance(one, FailureObservation)]

    @property
    def latest(self) -> Reading | None:
        """The last usable page."""
        return self.readings[-1] if self.readings else None

    @property
    def is_vllm(self) -> bool:
        return bool(self.readings)

    @property
    def took_seconds(self) -> float | None:
        """How long the last page took; the first one also had to connect."""
        return self.latest.took_seconds if self.latest else None

    @property
    def started_seconds(self) -> float | None:
        """When the API server started (unix seconds); pages of several API servers do not say."""
        return gauge(self.latest, "process_start_time_seconds") if self.latest else None

    @property
    def not_vllm(self) -> bool:
        return isinstance(self.refused, NotVllm)


@dataclass(frozen=True, slots=True)
class SeenPool:
    """A pool with its targets, those that did not answer included."""

    name: str
    role: Role
    gpus: int | None
    targets: tuple[SeenTarget, ...]

    @property
    def usable(self) -> list[SeenTarget]:
        return [target for target in self.targets if target.is_vllm]


def see(config: Config, answers: Iterable[Answer]) -> list[SeenPool]:
    """The pools as their targets answered; a target without an answer has none."""
    by_name = {answer.target: answer for answer in answers}
    pools = []
    for pool in config.pools:
        targets = tuple(
            seen_target(
                target.name, pool.name, pool.role, by_name.get(target.name, Answer(target.name, ())), config.prefix
            )
            for target in pool.targets
        )
        gpus = pool.gpus_per_target * len(targets) if pool.gpus_per_target is not None else None
        pools.append(SeenPool(pool.name, pool.role, gpus, targets))
    return pools


def seen_target(name: str, pool: str, role: Role, answer: Answer, prefix: str = "") -> SeenTarget:
    """Read a target's pages and difference the first and the last."""
    reader = PageReader(prefix=prefix)
    readings: list[Reading] = []
    refused: PageError | None = None
    models: dict[str, None] = {}
    for page in answer.observations:
        if isinstance(page, PageObservation):
            try:
                reading = reader.read(page.t, name, page.page, page.content_type, page.took_seconds)
            except PageError as error:
                refused = error
            else:
                readings.append(_complete(reading, readings[-1]) if readings and not reading.fresh else reading)
                models.update(dict.fromkeys(models_of(page.page)))
    lifetime = since_start(readings[-1]) if readings else Increase()
    return SeenTarget(name, pool, role, answer, tuple(readings), refused, tuple(models), between(readings), lifetime)


def _complete(reading: Reading, before: Reading) -> Reading:
    """A reading that lists what changed, with all that did not change since the one before."""
    return replace(
        reading,
        counters=before.counters | reading.counters,
        histograms=before.histograms | reading.histograms,
    )


def models_of(page: str) -> list[str]:
    """The served model names on a page, in order."""
    names = (match[1] for line in page.split("\n", _SCANNED_LINES)[:_SCANNED_LINES] for match in _MODEL.finditer(line))
    return list(dict.fromkeys(names))


def between(readings: Sequence[Reading]) -> Between | None:
    """What happened between the first and the last page; None with fewer than two."""
    if len(readings) < 2 or readings[-1].t <= readings[0].t:
        return None
    window = TargetWindow(retain_seconds=float("inf"))
    window.take(readings[0])
    window.take(readings[-1])
    gained = window.increases(readings[0].t, readings[-1].t)
    why = window.health.inconsistent_text
    if not why and gained.restarts:
        why = "counters fell: the server restarted, or several servers answer in turn behind this address"
    return Between(gained.covered_seconds, merged(gained.engines.values()), why)


def since_start(reading: Reading) -> Increase:
    """All that a page counts, over all its engines, as if it had happened in one window."""
    total = Increase()
    for position, value in reading.counters.items():
        series = reading.layout.counters[position]
        total.add(Increase(counters={(series.metric, series.label): value}))
    for position, histogram in reading.histograms.items():
        key = reading.layout.histograms[position]
        count = sum(histogram.counts)
        unsummed = count if histogram.total is None else 0.0
        gained = HistogramIncrease(key.edges, list(histogram.counts), histogram.total or 0.0, unsummed)
        total.add(Increase(histograms={key.series.metric: gained}))
    return total


def gauge(reading: Reading, metric: str) -> float | None:
    """The value of a gauge that a page has once."""
    for series, value in zip(reading.layout.gauges, reading.gauges, strict=True):
        if series.metric == metric:
            return value
    return None


def kv_capacity_tokens(reading: Reading) -> dict[str, int]:
    """Engine -> tokens its KV cache holds; engines whose page does not tell are left out.

    Since 0.26 the page says it per engine. `num_gpu_blocks` is the sum over the page's engines, repeated on each.
    """
    found: dict[str, int] = {}
    for engine, labels in reading.layout.info.items():
        tokens = _whole(labels.get("kv_cache_size_tokens"))
        blocks, size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
        if tokens is None and blocks is not None and size is not None:
            tokens = blocks * size // max(1, len(reading.layout.info))
        if tokens is not None:
            found[engine] = tokens
    return found


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
