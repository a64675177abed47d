"""What pdwatch says of itself. In: nothing. Out: rows."""

from __future__ import annotations

from collections.abc import Iterator

from agent.catalogue.metric import Row


def own_rows() -> Iterator[Row]:
    """Cost of pdwatch itself, its defects and exports, what it sends and what is sent to it."""
    yield from _agent_rows()
    yield from _configuration_rows()
    yield from _delivery_rows()
    yield from _span_rows()


def _agent_rows() -> Iterator[Row]:
    yield "build_info", "info", "", ("version", "python"), "Version of pdwatch."
    yield "agent_start_time_seconds", "gauge", "seconds", (), "When pdwatch started, unix time."
    yield "agent_cpu_seconds_total", "counter", "seconds", (), "CPU time that pdwatch used."
    yield "agent_resident_memory_bytes", "gauge", "bytes", (), "Resident memory of pdwatch."
    yield "agent_loop_lag_seconds", "gauge", "seconds", (), "Longest delay of the event loop in the last minute."
    yield "agent_state_build_seconds", "gauge", "seconds", (), "Time the last state took to compute."
    yield "agent_observations_total", "counter", "", (), "Pages, failures and process readings taken in."
    yield "agent_ignored_observations_total", "counter", "", (), "Observations of targets that are not configured."
    yield "agent_skipped_scrapes_total", "counter", "", (), "Scrapes left out because the one before still ran."
    yield "agent_errors_total", "counter", "", ("where",), "Defects of pdwatch that were caught; each is logged."
    yield (
        "agent_otlp_exports_total",
        "counter",
        "",
        ("result",),
        "Exports over OTLP: ok, failed, or skipped as one ran.",
    )


def _configuration_rows() -> Iterator[Row]:
    """The configuration in force, and the targets that are found for it."""
    yield "config_last_reload_successful", "gauge", "", (), "1 while the last configuration that was read is in force."
    yield (
        "config_last_reload_success_timestamp_seconds",
        "gauge",
        "seconds",
        (),
        "When a configuration was last read and taken, unix time.",
    )
    yield "discovery_targets", "gauge", "", ("pool",), "Targets that discovery has found for a pool."
    yield (
        "discovery_failures_total",
        "counter",
        "",
        ("pool", "kind"),
        "Looks at a source of targets that failed, or left something out; the last list then stands.",
    )
    yield (
        "discovery_last_success_timestamp_seconds",
        "gauge",
        "seconds",
        ("pool", "kind"),
        "When a source of targets last gave a list, unix time; absent before the first.",
    )


def _delivery_rows() -> Iterator[Row]:
    """Alerts on their way. `receiver`: alertmanager, webhook, pagerduty, slack; more of a kind have a number."""
    receiver = ("receiver",)
    yield "delivery_attempts_total", "counter", "", receiver, "Posts to a receiver of alerts, whatever it answered."
    yield (
        "delivery_failures_total",
        "counter",
        "",
        (*receiver, "reason"),
        "Posts that a receiver did not take, by a word such as timeout, refused or http_503.",
    )
    yield "delivery_dropped_total", "counter", "", receiver, "Alerts that were given up; each is logged."
    yield "delivery_queued_alerts", "gauge", "", receiver, "Alerts that wait to be sent."
    yield (
        "delivery_last_success_timestamp_seconds",
        "gauge",
        "seconds",
        receiver,
        "When a receiver last took a post, unix time; absent before the first.",
    )
    yield (
        "delivery_lease_held",
        "gauge",
        "",
        (),
        "1 while this pdwatch is the one that posts to webhooks, PagerDuty and Slack, else 0; absent without any.",
    )
    yield (
        "delivery_muted_alerts",
        "gauge",
        "",
        (),
        "Alerts that stand and that a maintenance window keeps back.",
    )


def _span_rows() -> Iterator[Row]:
    """Request spans that servers send over OTLP, and what became of the legs they tell of (docs/traces.md)."""
    yield "span_bodies_total", "counter", "", (), "Bodies of spans that were taken in."
    yield "span_bodies_refused_total", "counter", "", ("status",), "Bodies that were refused, by HTTP status."
    yield "spans_total", "counter", "", (), "Spans of requests that were taken in."
    yield (
        "spans_left_out_total",
        "counter",
        "",
        ("reason",),
        "Spans left out: other (no request's), malformed, over_rate, over_size or unknown_service.",
    )
    yield (
        "span_bodies_forwarded_total",
        "counter",
        "",
        ("result",),
        "Bodies to the collector behind: sent, dropped, failed.",
    )
    yield "request_legs_total", "counter", "", ("outcome",), "Legs and requests from spans, by what became of them."
    yield "request_legs_waiting", "gauge", "", (), "Legs from spans that wait for their other leg."
