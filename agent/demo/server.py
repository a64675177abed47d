"""One server: vLLM with its engines behind one address. In: requests from the router. Out: pages, processes.

A restart is a new life: new engines, counters at zero, new processes. What was inside is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from agent.demo.conditions import Conditions
from agent.demo.metrics import HttpMetrics
from agent.demo.requests import Request
from agent.demo.topology import Pool, Topology

if TYPE_CHECKING:
    from agent.demo.decode import DecodeEngine
    from agent.demo.pages import PageWriter
    from agent.demo.prefill import PrefillEngine

FIRST_PID = 4000
PIDS_PER_SERVER = 2000


class Server:
    """`up`: it answers; `draining`: it gets nothing new. `prefilled`: what is done with a prefilled request."""

    def __init__(
        self,
        name: str,
        role: Literal["prefill", "decode"],
        number: int,
        topology: Topology,
        conditions: Conditions,
        prefilled: Callable[[float, Request], None],
    ) -> None:
        self.name = name
        self.role = role
        self.topology = topology
        self.conditions = conditions
        self.prefilled = prefilled
        self.up = False
        self.draining = False
        self.started = 0.0
        self.lives = 0
        self.first_pid = FIRST_PID + number * PIDS_PER_SERVER
        self.http = HttpMetrics()
        self.prefill_engines: Sequence[PrefillEngine] = ()
        self.decode_engines: Sequence[DecodeEngine] = ()
        self.writer: PageWriter | None = None

    @property
    def pool(self) -> Pool:
        return self.topology.prefill if self.role == "prefill" else self.topology.decode

    @property
    def engines(self) -> Sequence[PrefillEngine | DecodeEngine]:
        return self.prefill_engines if self.role == "prefill" else self.decode_engines

    @property
    def takes_requests(self) -> bool:
        return self.up and not self.draining

    def uptime_seconds(self, t: float, began: float) -> float:
        """Uptime of its host at `t`; `began`: when the simulation began. The clock that engines stamp events with."""
        return self.topology.host_uptime_seconds + t - began
