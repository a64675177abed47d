"""Rollouts, and how much prefill can take. In: a fleet or its topology. Out: restarts in turn; requests per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.demo.fleet import Fleet
from agent.demo.server import Server
from agent.demo.topology import Topology
from agent.demo.traffic import Arrivals

SAMPLED_PROMPTS = 2000


def rollout(
    fleet: Fleet,
    t: float,
    *,
    targets: Sequence[str] | None = None,
    drain_seconds: float = 60.0,
    down_seconds: float | None = None,
    pause_seconds: float = 120.0,
) -> Callable[[float], None]:
    """Restart servers one after another: drained first, then down for minutes, then with counters at zero.

    `targets` None: all of them, prefill first. A pool with one server is gone while that one is down. Once begun it
    goes through to its last server.
    """
    down = fleet.topology.restart_seconds if down_seconds is None else down_seconds
    for name in fleet.targets if targets is None else targets:
        server = fleet.server(name)
        fleet.events.at(t, _drain, server)
        fleet.events.at(t + drain_seconds, fleet.stop_server, server)
        fleet.events.at(t + drain_seconds + down, fleet.start_server, server)
        t += drain_seconds + down + pause_seconds
    return lambda _: None


def _drain(_: float, server: Server) -> None:
    server.draining = True


def prefill_capacity(topology: Topology) -> float:
    """Requests per second that all prefill engines together can compute, for prompts as they usually are."""
    arrivals, speed = Arrivals(topology.traffic, topology.seed), topology.prefill_speed
    whole = 0.0
    for _ in range(SAMPLED_PROMPTS):
        prompt = arrivals.prompt_tokens()
        cached = arrivals.cached_tokens(prompt, topology.block_tokens)
        stretch = 1.0 + (prompt + cached) / speed.doubling_tokens
        whole += speed.overhead_seconds + (prompt - cached) / speed.tokens_per_second * stretch
    engines = topology.prefill.targets * topology.prefill.engines
    return engines * SAMPLED_PROMPTS / whole
