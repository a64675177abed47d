"""Rows of "pdwatch itself" about its surroundings. In: names of metrics. Out: rows of panels.

Whether alerts reach people, whether the list of targets is a fresh one, whether the configuration on disk is the one in
force, and what request spans bring: each is there only where it is configured, and says so where it is not.
"""

from __future__ import annotations

from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import ANY_IS_BAD, GREEN, RED
from agent.export.dashboards.panels import About, Query, lines, numbers
from agent.export.dashboards.queries import Own

NO_RECEIVER = "No receiver"
NO_DISCOVERY = "No discovery"
NO_SPANS = "No spans"
NOT_READ_AGAIN = "Without a file"
RECEIVER = "{{receiver}} {{deployment}}"
SOURCE = "{{pool}} {{kind}} {{deployment}}"
POSTING = {"nobody": (0, "nobody posts", RED), "somebody": (1, "one posts", GREEN)}
IN_FORCE = {"refused": (0, "refused", RED), "in force": (1, "in force", GREEN)}


def told(own: Own) -> list[Row]:
    """Delivery, discovery and reload, spans."""
    return [
        Row("Does it reach people?", _delivery(own)),
        Row("What it is told to watch", _told_to_watch(own)),
        Row("Request spans", _spans(own)),
    ]


def _delivery(own: Own) -> list[Place]:
    posts = lines(
        About(
            "Posts to receivers, and those not taken",
            "Per second. Every failure is tried again until it is taken or given up; a receiver whose posts all fail "
            "is one whom nobody hears. No line: pdwatch itself sends to nobody (Prometheus may).",
            unit="ops",
            empty=NO_RECEIVER,
        ),
        Query(own.rate("delivery_attempts_total"), RECEIVER),
        Query(own.rate("delivery_failures_total"), "{{receiver}} failed: {{reason}} {{deployment}}"),
    )
    queued = lines(
        About(
            "Alerts that wait to be sent",
            "At 0 all that was to be told has been. A rising line is a receiver that does not take them; those "
            "kept back by a maintenance window are not in it, and have a line of their own.",
            empty=NO_RECEIVER,
            decimals=0,
        ),
        Query(own.now("delivery_queued_alerts"), RECEIVER),
        Query(own.now("delivery_muted_alerts"), "kept back by a maintenance window {{deployment}}"),
    )
    last = numbers(
        About(
            "Last post taken, ago",
            "How long ago each receiver last took one. Long is right where nothing had to be told; where the panel "
            "on the left shows failures since, it is how long nobody was told.",
            unit="s",
            empty="None taken yet",
        ),
        Query(f"time() - {own.now('delivery_last_success_timestamp_seconds')}", RECEIVER),
        spark=False,
    )
    dropped = numbers(
        About(
            "Alerts given up",
            "In the time range above: not taken by a receiver in all its time. Each is in the log.",
            empty=NO_RECEIVER,
            decimals=0,
        ),
        Query(own.increase("delivery_dropped_total", "$__range"), RECEIVER),
        thresholds=ANY_IS_BAD,
    )
    posting = numbers(
        About(
            "Who posts",
            "Of several pdwatch for one deployment, one holds the lease and posts to webhooks, PagerDuty and Slack. "
            "Nobody: all stand by, so nobody is told. Alertmanager gets alerts from all of them and needs no lease.",
            empty="No lease needed",
        ),
        Query(own.now("delivery_lease_held"), "{{deployment}}"),
        states=POSTING,
        spark=False,
    )
    return [Place(posts, 9, 7), Place(queued, 6, 7), Place(last, 3, 7), Place(dropped, 3, 7), Place(posting, 3, 7)]


def _told_to_watch(own: Own) -> list[Place]:
    reload = numbers(
        About(
            "Configuration on disk",
            "Refused: what was last read could not be used, and the one before is still in force; the log says what "
            "is wrong with it.",
            empty=NOT_READ_AGAIN,
            runbooks=("PDWatchConfigReloadFailed",),
        ),
        Query(own.least("config_last_reload_successful"), "{{deployment}}"),
        states=IN_FORCE,
        spark=False,
    )
    since = numbers(
        About("In force for", "Since a configuration was last read and taken.", unit="s", empty=NOT_READ_AGAIN),
        Query(f"time() - {own.now('config_last_reload_success_timestamp_seconds')}", "{{deployment}}"),
        spark=False,
    )
    found = lines(
        About(
            "Targets found by discovery",
            "A step is a pool that grew or shrank. At 0 a pool has nobody left.",
            empty=NO_DISCOVERY,
            runbooks=("PDWatchPoolEmpty",),
            decimals=0,
        ),
        Query(own.now("discovery_targets"), "{{pool}} {{deployment}}"),
    )
    failed = lines(
        About(
            "Looks for targets that failed",
            "Per second. While they fail the last list stands, so servers that are new since are not watched.",
            unit="ops",
            empty=NO_DISCOVERY,
            runbooks=("PDWatchDiscoveryFailed",),
        ),
        Query(own.rate("discovery_failures_total"), SOURCE),
    )
    age = lines(
        About(
            "Age of the list of targets",
            "Saw teeth as high as the refresh interval are right; a ramp is a source that no longer answers.",
            unit="s",
            empty=NO_DISCOVERY,
            runbooks=("PDWatchDiscoveryFailed",),
        ),
        Query(f"time() - {own.now('discovery_last_success_timestamp_seconds')}", SOURCE),
    )
    return [Place(reload, 3, 7), Place(since, 3, 7), *(Place(panel, 6, 7) for panel in (found, failed, age))]


def _spans(own: Own) -> list[Place]:
    taken = lines(
        About(
            "Spans per second",
            "Taken in, and left out by reason: `other` are no request's and usual; over_rate and over_size are lost, "
            "and what is said about requests then rests on the rest.",
            unit="ops",
            empty=NO_SPANS,
        ),
        Query(own.rate("spans_total"), "taken in {{deployment}}"),
        Query(own.rate("spans_left_out_total"), "left out: {{reason}} {{deployment}}"),
    )
    bodies = lines(
        About(
            "Bodies of spans",
            "Per second: taken in, refused by HTTP status, and handed on to the collector behind pdwatch.",
            unit="ops",
            empty=NO_SPANS,
        ),
        Query(own.rate("span_bodies_total"), "taken in {{deployment}}"),
        Query(own.rate("span_bodies_refused_total"), "refused: {{status}} {{deployment}}"),
        Query(own.rate("span_bodies_forwarded_total"), "collector behind: {{result}} {{deployment}}"),
    )
    legs = lines(
        About(
            "Legs of requests",
            "Per second, by what became of them. `joined` are whole requests; `unmatched`, waited in vain: the two "
            "pools' spans do not carry the same identifier, or those of one pool do not come.",
            unit="reqps",
            empty=NO_SPANS,
        ),
        Query(own.rate("request_legs_total"), "{{outcome}} {{deployment}}"),
    )
    waiting = lines(
        About(
            "Legs that wait for their other one",
            "Hovers around the rate times the time between the two spans; a ramp: one pool's spans do not come.",
            empty=NO_SPANS,
            decimals=0,
        ),
        Query(own.now("request_legs_waiting"), "{{deployment}}"),
    )
    return [Place(panel, 6, 7) for panel in (taken, bodies, legs, waiting)]
