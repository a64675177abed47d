"""Pages and readings in the words of the tests. Out: a fresh reading's values by series, and pages put together."""

from __future__ import annotations

from agent.model import HistogramValue, Layout, Reading, SeriesKey
from agent.reading.page import PageReader

EDGES_AND_COUNTS = {"0.5": 2.0, "1.0": 5.0, "+Inf": 7.0}


def read(text: str, content_type: str = "", prefix: str = "") -> Reading:
    """Read one page that the reader has never seen."""
    return PageReader(prefix).read(1.0, "decode-0", text, content_type)


def counters(reading: Reading) -> dict[SeriesKey, float]:
    return {reading.layout.counters[index]: value for index, value in reading.counters.items()}


def gauges(reading: Reading) -> dict[SeriesKey, float | None]:
    return dict(zip(reading.layout.gauges, reading.gauges, strict=True))


def histograms(reading: Reading) -> dict[SeriesKey, HistogramValue]:
    return {reading.layout.histograms[index].series: value for index, value in reading.histograms.items()}


def edges(layout: Layout, series: SeriesKey) -> tuple[float, ...]:
    return next(key.edges for key in layout.histograms if key.series == series)


def texts(reading: Reading) -> str:
    return "\n".join(problem.text for problem in reading.problems)


def key(metric: str, label: str = "", engine: str = "0", raw: str = "") -> SeriesKey:
    return SeriesKey(engine, metric, label, raw)


def bucket_lines(
    cumulative: dict[str, float],
    total: float | str | None = 3.5,
    count: float | str | None = 7.0,
    *,
    family: str = "vllm:time_to_first_token_seconds",
    kind: str = "histogram",
    labels: str = 'engine="0",model_name="demo"',
) -> str:
    """One histogram, line by line as given, right or wrong."""
    comma = "," if labels else ""
    braces = f"{{{labels}}}" if labels else ""
    lines = [f"# TYPE {family} {kind}"]
    lines += [f'{family}_bucket{{{labels}{comma}le="{edge}"}} {value}' for edge, value in cumulative.items()]
    if count is not None:
        lines.append(f"{family}_count{braces} {count}")
    if total is not None:
        lines.append(f"{family}_sum{braces} {total}")
    return "\n".join(lines) + "\n"


class Follower:
    """Takes readings over as a consumer must: keeps what was, adds what is listed, begins anew when fresh."""

    def __init__(self) -> None:
        self.counters: dict[SeriesKey, float] = {}
        self.histograms: dict[SeriesKey, HistogramValue] = {}
        self.layout: Layout | None = None

    def take(self, reading: Reading) -> None:
        if reading.fresh:
            self.counters.clear()
            self.histograms.clear()
            self.layout = reading.layout
        assert reading.layout is self.layout, "a layout may only change in a fresh reading"
        self.counters.update(counters(reading))
        self.histograms.update(histograms(reading))
