"""Board "pdwatch itself": can what it says be trusted? In: the configuration. Out: a board.

A watch that is blind, late or starved has to show it: everything on the other boards rests on what is here.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.itself_told import told
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import NOTHING, UP
from agent.export.dashboards.panels import About, Query, lines, numbers, rows, states_over_time
from agent.export.dashboards.queries import Own
from agent.export.dashboards.variables import DEPLOYMENT, POOL, TARGET

NOT_THERE = "pdwatch is not scraped"
BY_INSTANCE = "{{deployment}}"
TARGETS = "{{target}} {{deployment}}"
OLD = ((None, "green"), (15, "orange"), (30, "red"))
"""Seconds; three scrapes at the usual interval make data stale."""


def itself_board(config: Config) -> Board:
    """What pdwatch sees, and what it costs."""
    own = Own(pool="pool", target="target")
    return Board(
        word="itself",
        title="pdwatch / pdwatch itself",
        description="Can what pdwatch says be trusted: does it see everything, in time, at which cost?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, POOL, TARGET],
        events=own_events(),
        rows=[
            Row("Does it see everything?", _sees(own)),
            Row("Scrapes", _scrapes(own)),
            Row("What it costs", _costs(own)),
            *told(own),
            Row("What it judged on", _judged(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _sees(own: Own) -> list[Place]:
    versions = rows(
        About(
            "Version",
            "More than one line for a deployment: replicas of different versions.",
            empty=NOT_THERE,
            runbooks=("PDWatchAgentDown",),
        ),
        [("runs", Query(own.now("build_info")))],
        labels=["deployment", "version", "python"],
        hidden=["runs"],
    )
    running = numbers(
        About("Runs for", "Since pdwatch started. What is cumulative began then.", unit="s", empty=NOT_THERE),
        Query(f"time() - {own.now('agent_start_time_seconds')}", BY_INSTANCE),
    )
    up = states_over_time(
        About(
            "Targets",
            "Up: the last page came, could be used and is fresh. What is down is left out of every number, so pools "
            "look smaller and not idle.",
            empty="Not known",
            runbooks=("PDWatchTargetUnreachable", "PDWatchTargetStale"),
        ),
        Query(own.now("target_up"), TARGETS),
        states=UP,
    )
    return [Place(versions, 8, 7), Place(running, 4, 7), Place(up, 12, 7)]


def _scrapes(own: Own) -> list[Place]:
    age = lines(
        About(
            "Age of the data",
            "Saw teeth as high as the scrape interval are right; a ramp is a target that is gone.",
            unit="s",
            runbooks=("PDWatchTargetStale",),
        ),
        Query(own.now("target_data_age_seconds"), TARGETS),
        thresholds=OLD,
    )
    took = lines(
        About("Time of a scrape", "As long as the scrape timeout: pages will be lost next.", unit="s"),
        Query(own.now("target_scrape_duration_seconds"), TARGETS),
    )
    failed = lines(
        About(
            "Scrapes that failed, by reason",
            "Per second. A few at a restart are usual.",
            unit="ops",
            empty=NOTHING,
            runbooks=("PDWatchTargetFlaps", "PDWatchUnusablePage"),
        ),
        Query(own.rate("target_scrape_failures_total"), "{{reason}}: {{target}} {{deployment}}"),
    )
    rate = lines(
        About("Pages taken per second", "One for each scrape interval, from each target.", unit="ops"),
        Query(own.rate("target_scrapes_total"), TARGETS),
    )
    size = lines(
        About(
            "Size of a page",
            "Grows with engines and label values; a page that grows without end is a fault of its server.",
            unit="bytes",
        ),
        Query(own.now("target_page_bytes"), TARGETS),
    )
    samples = lines(
        About("Samples on a page", "The same in lines."),
        Query(own.now("target_page_samples"), TARGETS),
    )
    return [Place(panel, 8) for panel in (age, took, failed, rate, size, samples)]


def _costs(own: Own) -> list[Place]:
    cpu = lines(
        About(
            "CPU",
            "Cores in use. Above one core pdwatch cannot keep up.",
            unit="percentunit",
            empty=NOT_THERE,
            runbooks=("PDWatchAgentOverloaded",),
        ),
        Query(own.rate("agent_cpu_seconds_total"), BY_INSTANCE),
    )
    memory = lines(
        About(
            "Memory",
            "Resident. It levels off once the windows are full, after about a day.",
            unit="bytes",
            empty=NOT_THERE,
        ),
        Query(own.now("agent_resident_memory_bytes"), BY_INSTANCE),
    )
    lag = lines(
        About(
            "Delay of the event loop, and time for a state",
            "Tens of milliseconds are usual. Seconds: starved of CPU, or too many targets.",
            unit="s",
            empty=NOT_THERE,
            runbooks=("PDWatchAgentOverloaded",),
        ),
        Query(own.now("agent_loop_lag_seconds"), "longest delay of the last minute {{deployment}}"),
        Query(own.now("agent_state_build_seconds"), "time for a state {{deployment}}"),
    )
    taken = lines(
        About(
            "Observations per second",
            "Pages, failures and process readings; left out are those of targets that are not configured.",
            unit="ops",
            empty=NOT_THERE,
        ),
        Query(own.rate("agent_observations_total"), "taken in {{deployment}}"),
        Query(own.rate("agent_ignored_observations_total"), "ignored {{deployment}}"),
        Query(own.rate("agent_skipped_scrapes_total"), "scrapes left out {{deployment}}"),
    )
    errors = lines(
        About(
            "Defects caught",
            "Each is logged, and is a fault of pdwatch: please report it.",
            unit="ops",
            empty=NOTHING,
            runbooks=("PDWatchAgentError",),
        ),
        Query(own.rate("agent_errors_total"), "{{where}} {{deployment}}"),
    )
    exports = lines(
        About(
            "Exports over OTLP",
            "Per second, by result; skipped are those that were due while one still ran.",
            unit="ops",
            empty="No OTLP export",
        ),
        Query(own.rate("agent_otlp_exports_total"), "{{result}} {{deployment}}"),
    )
    return [Place(panel, 8) for panel in (cpu, memory, lag, taken, errors, exports)]


def _judged(own: Own) -> list[Place]:
    observations = lines(
        About(
            "Observations behind each objective",
            "Fewer than its min_requests: too few to judge. A mean of few is a mean of chance.",
        ),
        Query(own.now("objective_observations"), "{{objective}} of {{scope}} {{deployment}}"),
    )
    requests = lines(
        About(
            "Observations behind each pool's times",
            "Requests of the window. At 0 the times are not 0, they are not known.",
        ),
        Query(own.now("pool_ttft_observations"), "first token: {{pool}} {{deployment}}"),
        Query(own.now("pool_tpot_observations"), "per token: {{pool}} {{deployment}}"),
    )
    window = numbers(
        About("Window", "How far back values over the window look.", unit="s", empty=NOT_THERE),
        Query(own.now("window_seconds"), BY_INSTANCE),
        spark=False,
    )
    return [Place(observations, 10), Place(requests, 10), Place(window, 4)]
