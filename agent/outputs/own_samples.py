"""Samples of what pdwatch says of itself. In: its own figures. Out: catalogued samples.

Receivers are told apart by the names that delivery gives them (`webhook`, `webhook-2`): an address may hold a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agent.outputs.delivery.figures import DeliveryFigures
from agent.outputs.own import OwnFigures
from agent.outputs.sample import Sample, known

if TYPE_CHECKING:
    from agent.sources.traces import TraceCounts
    from agent.sources.traces_forward import ForwardCounts


def own_samples(own: OwnFigures) -> Iterator[Sample]:
    """Cost and defects, what is sent to people, and what servers send."""
    yield from _agent(own)
    if own.reload is not None:
        yield from known("config_last_reload_successful", (), own.reload.successful)
        yield from known("config_last_reload_success_timestamp_seconds", (), own.reload.succeeded)
    if own.discovery is not None:
        yield from own.discovery.samples()
    if own.delivery is not None:
        yield from _delivery(own.delivery)
    if own.spans is not None:
        yield from _spans(own.spans)
    if own.forwarded is not None:
        yield from _forwarded(own.forwarded)


def legs(counts: Mapping[str, int]) -> Iterator[Sample]:
    """`counts`: what became of the legs since the start, `waiting` among them (docs/traces.md)."""
    for outcome, count in counts.items():
        if outcome == "waiting":
            yield from known("request_legs_waiting", (), count)
        else:
            yield from known("request_legs_total", (outcome,), count)


def _agent(own: OwnFigures) -> Iterator[Sample]:
    yield from known("build_info", (own.version, own.python), 1)
    yield from known("agent_start_time_seconds", (), own.started)
    yield from known("agent_cpu_seconds_total", (), own.cpu_seconds)
    yield from known("agent_resident_memory_bytes", (), own.resident_bytes)
    yield from known("agent_loop_lag_seconds", (), own.loop_lag_seconds)
    yield from known("agent_state_build_seconds", (), own.state_build_seconds)
    yield from known("agent_observations_total", (), own.observations)
    yield from known("agent_ignored_observations_total", (), own.ignored_observations)
    yield from known("agent_skipped_scrapes_total", (), own.skipped_scrapes)
    for where, count in own.errors.items():
        yield from known("agent_errors_total", (where,), count)
    for result, count in own.exports.items():
        yield from known("agent_otlp_exports_total", (result,), count)


def _delivery(delivery: DeliveryFigures) -> Iterator[Sample]:
    for receiver in delivery.receivers:
        at = (receiver.name,)
        yield from known("delivery_attempts_total", at, receiver.attempts)
        for word, count in receiver.failures.items():
            yield from known("delivery_failures_total", (*at, word), count)
        yield from known("delivery_dropped_total", at, receiver.dropped)
        yield from known("delivery_queued_alerts", at, receiver.queued)
        yield from known("delivery_last_success_timestamp_seconds", at, receiver.last_success)
    if delivery.leased:
        yield from known("delivery_lease_held", (), delivery.holds_lease())
    if delivery.receivers:
        yield from known("delivery_muted_alerts", (), delivery.muted())


def _spans(spans: TraceCounts) -> Iterator[Sample]:
    yield from known("span_bodies_total", (), spans.bodies)
    for status, count in spans.refused.items():
        yield from known("span_bodies_refused_total", (str(status),), count)
    yield from known("spans_total", (), spans.spans)
    left_out = {
        "other": spans.others,
        "malformed": spans.malformed,
        "over_rate": spans.over_rate,
        "over_size": spans.over_size,
        "unknown_service": spans.unknown_service,
    }
    for reason, count in left_out.items():
        yield from known("spans_left_out_total", (reason,), count)


def _forwarded(forwarded: ForwardCounts) -> Iterator[Sample]:
    yield from known("span_bodies_forwarded_total", ("sent",), forwarded.sent)
    yield from known("span_bodies_forwarded_total", ("dropped",), forwarded.dropped)
    yield from known("span_bodies_forwarded_total", ("failed",), sum(forwarded.failed.values()))
