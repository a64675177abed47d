"""Readings built by hand: what the tests of the pure rooms feed, without any page text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.model import HistogramKey, HistogramValue, Layout, Reading, SeriesKey

EDGES = (0.01, 0.025, 0.05, 0.1)


def layout(
    counters: Sequence[SeriesKey] = (),
    histograms: Sequence[HistogramKey] = (),
    gauges: Sequence[SeriesKey] = (),
) -> Layout:
    series = [*counters, *gauges, *(key.series for key in histograms)]
    engines = tuple(sorted({key.engine for key in series if key.engine}))
    return Layout(
        engines=engines,
        counters=tuple(counters),
        gauges=tuple(gauges),
        histograms=tuple(histograms),
        names={key.metric: f"vllm:{key.metric}" for key in series},
        info={},
    )


class Pages:
    """Successive readings of one target with one layout; only what changed is listed, as the reader does."""

    def __init__(self, of: Layout, target: str = "decode-0") -> None:
        self.layout, self.target = of, target
        self._counters: dict[int, float] = {}
        self._histograms: dict[int, HistogramValue] = {}

    def at(
        self,
        t: float,
        counters: Sequence[float] = (),
        histograms: Sequence[tuple[Sequence[float], float | None]] = (),
        gauges: Sequence[float | None] = (),
    ) -> Reading:
        values = {i: float(v) for i, v in enumerate(counters)}
        boxes = {i: HistogramValue(tuple(counts), total) for i, (counts, total) in enumerate(histograms)}
        fresh = not self._counters and not self._histograms
        reading = Reading(
            t=t,
            target=self.target,
            layout=self.layout,
            counters={i: v for i, v in values.items() if fresh or self._counters.get(i) != v},
            histograms={i: v for i, v in boxes.items() if fresh or self._histograms.get(i) != v},
            gauges=list(gauges),
            fresh=fresh,
        )
        self._counters, self._histograms = values, boxes
        return reading


def counter_values(steps: Mapping[tuple[str, str], float]) -> dict[str, float]:
    return {metric: value for (metric, _), value in steps.items()}
