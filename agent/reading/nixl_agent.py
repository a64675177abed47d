"""The page of NIXL's own telemetry exporter. In: nothing. Out: what its pages say, for a `PageReader`.

One page per worker process, on a port of its own (NIXL_TELEMETRY_ENABLE, NIXL_TELEMETRY_EXPORTER=prometheus). It counts
every transfer of the agent, those of all connectors that use it, and what memory is registered with it. Its times are
microseconds. Its gauges repeat the last event's value (not a state) and are not read.
"""

from __future__ import annotations

from types import MappingProxyType

from agent.errors import NotVllm, PageError
from agent.reading.name import ALL_LABELS, Name
from agent.reading.names import SampleName, families_of, samples_of
from agent.reading.scan import Scan
from agent.reading.vocabulary import Vocabulary


def _counter(metric: str, family: str, own_label: str = "") -> Name:
    return Name(
        metric,
        "counter",
        (family,),
        own_label=own_label,
        per_engine=False,
        vllm=False,
        raw_labels=ALL_LABELS,
        optional=True,
    )


NIXL_AGENT_NAMES: tuple[Name, ...] = (
    _counter("nixl_sent_bytes", "agent_tx_bytes_total"),
    _counter("nixl_received_bytes", "agent_rx_bytes_total"),
    _counter("nixl_sent_requests", "agent_tx_requests_num_total"),
    _counter("nixl_received_requests", "agent_rx_requests_num_total"),
    _counter("nixl_transfer_microseconds", "agent_xfer_time_total"),
    _counter("nixl_post_microseconds", "agent_xfer_post_time_total"),
    _counter("nixl_registered_bytes", "agent_memory_registered_total"),
    _counter("nixl_deregistered_bytes", "agent_memory_deregistered_total"),
    _counter("nixl_errors", "agent_errors_total", own_label="status"),
)
"""Counters that its exporter publishes from the start, each per agent."""


def nixl_agent() -> Vocabulary:
    """What the exporter's page says."""
    samples: dict[str, SampleName] = {}
    for name in NIXL_AGENT_NAMES:
        samples.update(samples_of(name, name.aliases))
    marks = ("agent_tx_bytes", "agent_rx_bytes", "agent_xfer_time", "agent_memory_registered")
    return Vocabulary(MappingProxyType(samples), families_of(samples), marks, _refusal, _any_page)


def _refusal(_: str) -> PageError:
    return NotVllm("not a page of NIXL's telemetry exporter: no agent_... counter is on it")


def _any_page(_: Scan) -> None:
    """Nothing on this page makes it another's."""
