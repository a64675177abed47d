"""Pictures of the boards' panels for docs/boards.md. In: the demo fleet. Out: docs/images/board-*.svg.

    python -m docs.board_pictures            # needs Debian's prometheus; takes some minutes

No Grafana draws them: the fleet of `pdwatch demo` runs two hours of its own time beside pdwatch, what pdwatch serves is
written into a real Prometheus, and each chart shows what the panel's own queries return there.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from agent.config import Config, Scrape, config_from_names
from agent.demo import Fleet, Topology, observations, small, start_incident, story
from agent.demo.topology import Traffic
from agent.demo.world import SETTLE_SECONDS
from agent.model import Observation
from docs.board_drawing import HEIGHT, WIDTH, Series, Stretch, chart, document, table
from tests.export.dashboards.made import boards
from tests.export.dashboards.played import Server, play
from tests.export.dashboards.variables import VALUES, filled

IMAGES = Path(__file__).with_name("images")
DAY_SECONDS = 86400.0
BEGIN = 1_796_000_000.0 - 1_796_000_000.0 % DAY_SECONDS + 14 * 3600
"""Two o'clock UTC in the afternoon, an hour before the busiest."""
GAP = 12.0
LEAKING_TARGET, LEAKING_TITLE = "decode-0", "VLLM::Worker_DP0_EP0"


class Incident(NamedTuple):
    """From minute to minute of a play; `ends_by_itself`: it takes its own time."""

    name: str
    begin: float
    end: float
    options: Mapping[str, Any] = {}
    ends_by_itself: bool = False


@dataclass(frozen=True, slots=True)
class Play:
    """A fleet for so many minutes, seen every `scrape_seconds`; of pdwatch every `step_seconds`."""

    topology: Topology
    minutes: float
    scrape_seconds: float
    step_seconds: float
    incidents: Sequence[Incident]


BUSY = Play(
    story(),
    118,
    15.0,
    30.0,
    (
        Incident("mtp-collapse", 14, 26),
        Incident("prefill-overload", 36, 48),
        Incident("kv-slow", 62, 74),
        Incident("rank-slow", 82, 94),
        Incident("rollout", 102, 118, ends_by_itself=True),
    ),
)
LONG = Play(
    replace(small(), traffic=Traffic(peak_requests_per_second=0.01)),
    600,
    120.0,
    300.0,
    (Incident("leak", 300, 600, {"target": LEAKING_TARGET, "title": LEAKING_TITLE, "bytes_per_hour": 12e9}),),
)
"""What leaks needs hours to be told from what warms up, so this is another fleet, small and with hardly any traffic."""


class Picture(NamedTuple):
    """Which panels of a board, from minute to minute; `table_at`: a table first, as it was in that minute."""

    board: str
    panels: Sequence[str]
    begin: float
    end: float
    incident: str
    table_at: tuple[str, float] | None = None
    of: Play = BUSY


PICTURES = (
    Picture(
        "overview",
        ("Verdicts over time", "Incidents over time", "Time per output token", "Problems over time"),
        8,
        36,
        "mtp-collapse",
        ("Why a promise is broken", 24),
    ),
    Picture(
        "prefill",
        ("Waterfall over time", "First token of the leg, $prefill", "Queue and compute", "Waiting and running"),
        31,
        60,
        "prefill-overload",
    ),
    Picture(
        "decode",
        (
            "Step time of each rank, against the median of its pool",
            "Time per token, $decode",
            "Time per token by engine",
            "Batch by engine",
        ),
        78,
        102,
        "rank-slow",
    ),
    Picture(
        "kv-transfer",
        ("Time of one transfer, $pool", "Throughput of one transfer", "KV moved", "Requests whose KV is being fetched"),
        57,
        81,
        "kv-slow",
    ),
    Picture(
        "speculation",
        (
            "Tokens per step, and what they were",
            "Time per token, and one step",
            "Accepted at each position",
            "Tokens per step by engine",
        ),
        8,
        36,
        "mtp-collapse",
    ),
    Picture(
        "memory",
        (
            "Trend of each process",
            "Memory, its limit, and the forecast",
            "Growth per hour, $process",
            "Time until the limit",
        ),
        180,
        560,
        "leak",
        of=LONG,
    ),
    Picture(
        "capacity",
        ("KV cache in use", "Running and waiting", "Requests finished per second", "Tokens per second"),
        31,
        60,
        "prefill-overload",
    ),
    Picture(
        "itself",
        ("Targets", "Age of the data", "Scrapes that failed, by reason", "Pages taken per second"),
        98,
        118,
        "rollout",
    ),
)


def main() -> None:
    """Plays the fleets, and writes each picture with its size."""
    for of in (BUSY, LONG):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder), 1.5 * of.step_seconds)
            config, seen = _seen(of)
            server.add(play(config, seen, of.step_seconds, server_seconds=of.minutes * 60))
            sys.stdout.write(f"{of.minutes:g} minutes of a fleet played in {time.monotonic() - began:.0f} s\n")
            with server.running():
                for picture in PICTURES:
                    if picture.of is of:
                        path = IMAGES / f"board-{picture.board}.svg"
                        path.write_text(_drawn(server, picture), encoding="utf-8")
                        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


def _seen(of: Play) -> tuple[Config, Iterator[Observation]]:
    """How pdwatch watches the fleet, and what a scraper sees of it, once the batches are full."""
    fleet = Fleet(of.topology, BEGIN - SETTLE_SECONDS, remember_seconds=900.0)
    fleet.advance(BEGIN)
    for one in of.incidents:
        until = None if one.ends_by_itself else BEGIN + one.end * 60
        start_incident(fleet, one.name, at=BEGIN + one.begin * 60, until=until, **one.options)
    found = config_from_names(fleet.targets)
    gpus = {"prefill": of.topology.prefill.engines, "decode": of.topology.decode.engines}
    pools = tuple(replace(pool, gpus_per_target=gpus[pool.role]) for pool in found.pools)
    config = replace(found, deployment="demo", scrape=Scrape(of.scrape_seconds), pools=pools)
    return config, observations(fleet, BEGIN, BEGIN + of.minutes * 60, of.scrape_seconds)


def _drawn(server: Server, picture: Picture) -> str:
    by_title = {panel["title"]: panel for panel in boards()[picture.board]["panels"]}
    begin, end = BEGIN + picture.begin * 60, BEGIN + picture.end * 60
    events = [
        (BEGIN + one.begin * 60, BEGIN + one.end * 60) for one in picture.of.incidents if one.name == picture.incident
    ]
    stretch = Stretch(begin, end, BEGIN, events)
    parts, top = list[tuple[float, float, str]](), GAP
    if picture.table_at is not None:
        title, minute = picture.table_at
        text, height = _table(server, by_title[title], minute)
        parts.append((GAP, top, text))
        top += height + GAP
    for number, title in enumerate(picture.panels):
        panel = by_title[title]
        values = _values(picture, panel)
        series = list(_series(server, panel, values, stretch, picture.of.step_seconds))
        if not series:
            raise SystemExit(f"{picture.board} / {title}: no data to draw")
        named = {**panel, "title": filled(title, values) if "$" in title else title}
        at = (GAP + (number % 2) * (WIDTH + GAP), top + (number // 2) * (HEIGHT + GAP))
        parts.append((*at, chart(named, series, stretch)))
    rows = (len(picture.panels) + 1) // 2
    words = f"Panels of the board {picture.board} during {picture.incident}: {', '.join(picture.panels)}"
    return document(2 * WIDTH + 3 * GAP, top + rows * (HEIGHT + GAP), parts, words)


def _values(picture: Picture, panel: Mapping[str, Any]) -> dict[str, str]:
    """What is chosen at the top of the board: one pool where panels repeat, and on memory the process that leaks."""
    chosen = {**VALUES, "__rate_interval": f"{4 * picture.of.step_seconds:g}s"}
    if picture.board == "memory":
        chosen |= {"process": re.escape(LEAKING_TITLE), "target": LEAKING_TARGET}
    if panel.get("repeat") in ("pool", "decode", "prefill"):
        chosen |= {"pool": "decode", "decode": "decode", "prefill": "prefill"}
    return chosen


def _series(
    server: Server, panel: Mapping[str, Any], values: Mapping[str, str], stretch: Stretch, step: float
) -> Iterator[Series]:
    for target in panel["targets"]:
        found = server.matrix(filled(target["expr"], values), stretch.begin, stretch.end, step)
        for one in sorted(found, key=lambda one: str(sorted(one["metric"].items()))):
            points = [(float(t), float(value)) for t, value in one["values"] if value not in ("NaN", "+Inf", "-Inf")]
            if points:
                form = re.sub(r"\$\w+", lambda match: filled(match[0], values), target.get("legendFormat", ""))
                yield Series(target["refId"], _legend(form, one["metric"]), points)


def _legend(form: str, labels: Mapping[str, str]) -> str:
    """As Grafana writes it, without the name of the one deployment."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], "") if match[1] != "deployment" else "", form)


def _table(server: Server, panel: Mapping[str, Any], minute: float) -> tuple[str, float]:
    """The rows of a table whose columns are labels, as they were in that minute."""
    at = BEGIN + minute * 60
    names = list(panel["transformations"][0]["options"]["indexByName"])
    columns = [name for name in names if name not in ("deployment", "stands", "Value")]
    expr = filled(panel["targets"][0]["expr"])
    rows = [[one["metric"].get(name, "") for name in columns] for one in server.matrix(expr, at, at, 1)]
    return table(f"{panel['title']} (at {minute:g} min)", columns, rows, 2 * WIDTH + GAP)


if __name__ == "__main__":
    main()
