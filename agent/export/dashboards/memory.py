"""Board "Memory": which process eats the host's memory, how fast, when it dies. In: the configuration. Out: a board.

The forecast at a moment is the line drawn the chosen hours earlier: right of now it is the future, left of now it
stands beside what then came, so that all can see how far to trust it. Hence the time range that ends ahead of now.
"""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from agent.config import Config
from agent.export.dashboards.bounds import slope_band
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import DASHED, PROMISE, TRENDS, codes, properties
from agent.export.dashboards.panels import About, Edges, Query, lines, numbers, rows, states_over_time
from agent.export.dashboards.queries import Own, coded
from agent.export.dashboards.variables import AHEAD, DEPLOYMENT, POOL, PROCESS, TARGET

UNREAD = "No process read"
WARMING = "Not known yet"
WHO = "{{process}} {{engine}} {{target}} {{deployment}}"
KEY = ("pool", "target", "engine", "process")
LEAK = ("PDWatchMemoryLeak", "PDWatchMemoryGrowth")


def memory_board(config: Config) -> Board:
    """Every process of every server."""
    own = Own(pool="pool", target="target", process="process")
    return Board(
        word="memory",
        title="pdwatch / Memory",
        description="Is some process eating the host's memory, how fast, and when does it die?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, POOL, TARGET, PROCESS, AHEAD],
        events=own_events(),
        rows=[
            Row("Processes", _processes(config, own)),
            Row("Growth", _growth(own)),
            Row("Memory", _memory(own)),
        ],
        runbooks=config.links.runbooks or "",
        begin="now-24h",
        end="now+6h",
    )


def _counted(own: Own, offset: str = "") -> str:
    """What grows towards the limit: anonymous memory and swap where they can be read, else what is resident."""
    by = "max by (deployment, pool, target, engine, process)"
    anonymous, swap, resident = (
        f"{by} ({own.series(f'memory_{what}_bytes')}{offset})" for what in ("anonymous", "swap", "rss")
    )
    return f"({anonymous} + {swap} or {anonymous} or {resident})"


def _forecast(own: Own, slope: str) -> str:
    by = "max by (deployment, pool, target, engine, process)"
    offset = " offset ${ahead}h"
    return f"{_counted(own, offset)} + {by} ({own.series(slope)}{offset}) * $ahead"


def _within(config: Config) -> Edges:
    seconds = config.memory.page_within_seconds
    return ((None, "red"), (seconds, "orange"), (4 * seconds, "green"))


def _processes(config: Config, own: Own) -> list[Place]:
    left = own.least("memory_time_to_limit_seconds")
    columns = [
        ("memory", Query(own.now("memory_rss_bytes"))),
        ("limit", Query(own.now("memory_limit_bytes"))),
        ("per hour", Query(own.now("memory_slope_bytes_per_hour"))),
        ("at least", Query(own.now("memory_slope_low_bytes_per_hour"))),
        ("at most", Query(own.now("memory_slope_high_bytes_per_hour"))),
        ("until the limit", Query(left)),
        ("earliest", Query(own.least("memory_time_to_limit_low_seconds"))),
        ("trend", Query(coded(own, "memory_trend", "trend", codes(TRENDS)))),
    ]
    table = rows(
        About(
            "All processes",
            "Growth per hour with its 95 % interval, and when the limit is reached at that pace. An interval that "
            "holds 0 is no growth. Without a limit there is no time until it.",
            unit="bytes",
            empty=UNREAD,
            runbooks=LEAK,
        ),
        columns,
        labels=["deployment", *KEY],
        units={"until the limit": "s", "earliest": "s", "trend": "short"},
        states={"trend": TRENDS},
    )
    first = numbers(
        About(
            "First to reach its limit",
            "Time until the nearest limit, at the growth of now. Red: within what pages.",
            unit="s",
            empty="None in sight",
            runbooks=("PDWatchOomImminent", *LEAK),
        ),
        Query(f"min by (deployment) ({left})", "{{deployment}}"),
        thresholds=_within(config),
    )
    trend = states_over_time(
        About(
            "Trend of each process",
            "Warming up after a start; steady; growing without being sure that it goes on; leaking.",
            empty=UNREAD,
            runbooks=LEAK,
        ),
        Query(coded(own, "memory_trend", "trend", codes(TRENDS)), WHO),
        states=TRENDS,
    )
    return [Place(table, 24, 9), Place(first, 6, 8), Place(trend, 18, 8)]


def _growth(own: Own) -> list[Place]:
    forecast = lines(
        About(
            "Memory, its limit, and the forecast",
            "Solid: memory that counts against the limit. Dashed: the line as it was drawn the chosen hours earlier; "
            "right of now it is the forecast, left of now it shows how good the forecast was. Red: the limit. Choose "
            "one target and process above where there are many.",
            unit="bytes",
            empty=UNREAD,
            runbooks=LEAK,
        ),
        Query(_counted(own), WHO),
        Query(_forecast(own, "memory_slope_bytes_per_hour"), f"forecast: {WHO}", _drawn(2)),
        Query(_forecast(own, "memory_slope_low_bytes_per_hour"), f"at least: {WHO}", _drawn(1)),
        Query(_forecast(own, "memory_slope_high_bytes_per_hour"), f"at most: {WHO}", _drawn(1)),
        Query(own.now("memory_limit_bytes"), f"limit: {WHO}", PROMISE),
    )
    slope = slope_band(
        About(
            "Growth per hour, $process",
            "The line is the growth, the band its 95 % interval; of several targets and engines the largest. While "
            "the band holds 0 nothing is proven; once it is wholly above 0 and stays there, the process grows. It "
            "narrows with time.",
            unit="bytes",
            empty=WARMING,
            repeat="process",
        ),
        Query(f"max by (deployment, process) ({own.now('memory_slope_low_bytes_per_hour')})", "at least"),
        Query(f"max by (deployment, process) ({own.now('memory_slope_bytes_per_hour')})", "growth"),
        Query(f"max by (deployment, process) ({own.now('memory_slope_high_bytes_per_hour')})", "at most"),
    )
    left = lines(
        About(
            "Time until the limit",
            "A line that falls as fast as the clock runs is a steady leak; one that stays level is none.",
            unit="s",
            empty=WARMING,
            runbooks=("PDWatchOomImminent",),
        ),
        Query(own.least("memory_time_to_limit_seconds"), WHO),
        Query(own.least("memory_time_to_limit_low_seconds"), f"earliest: {WHO}", _drawn(1)),
    )
    return [Place(forecast, 24, 11), Place(slope, 12, 8), Place(left, 12, 8)]


def _drawn(width: int) -> list[DynamicConfigValue]:
    return properties(custom__lineStyle=DASHED, custom__lineWidth=width, custom__fillOpacity=0)


def _memory(own: Own) -> list[Place]:
    resident = lines(
        About(
            "Resident memory",
            "All that is in RAM for each process, shared pages and file pages included.",
            unit="bytes",
            empty=UNREAD,
        ),
        Query(own.now("memory_rss_bytes"), WHO),
    )
    anonymous = lines(
        About(
            "Anonymous memory",
            "What the process asked for itself: where leaks are, and what the kernel cannot drop.",
            unit="bytes",
            empty=UNREAD,
        ),
        Query(own.now("memory_anonymous_bytes"), WHO),
    )
    swap = lines(
        About(
            "Swapped memory",
            "Growing swap hides growing memory: the two are added for the trend.",
            unit="bytes",
            empty=UNREAD,
        ),
        Query(own.now("memory_swap_bytes"), WHO),
    )
    host = lines(
        About(
            "All processes of a target",
            "Resident memory added up, shared pages counted by each process that has them.",
            unit="bytes",
            empty=UNREAD,
        ),
        Query(own.summed("memory_rss_bytes", ("pool", "target")), "{{target}} {{deployment}}"),
    )
    return [Place(resident), Place(anonymous), Place(swap), Place(host)]
