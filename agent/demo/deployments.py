"""Rollouts, and how much prefill can take. In: a fleet or its topology. Out: restarts in turn; requests per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.demo.fleet import Fleet
from agent.demo.server import Server
from agent.demo.topology import Topology
from agent.demo.traffic import Arrivals

SAMPLED_PROMPTS = 2000
DRAIN_SECONDS = 60.0
PAUSE_SECONDS = 120.0


def rollout(
    fleet: Fleet,
    t: float,
    *,
    targets: Sequence[str] | None = None,
    drain_seconds: float = DRAIN_SECONDS,
    down_seconds: float | None = None,
    pause_seconds: float = PAUSE_SECONDS,
) -> Callable[[float], None]:
    """Restart servers one after another: drained first, then down for minutes, then with counters at zero.

    `targets` None: all of them, prefill first. A pool with one server is gone while that one is down. Undone in the
    middle, it goes no further than the server it is at.
    """
    down = fleet.topology.restart_seconds if down_seconds is None else down_seconds
    called_off = False

    def restart(moment: float, server: Server) -> None:
        if called_off or server.draining or not server.up:
            return  # an earlier rollout that was undone may still be at it
        server.draining = True
        fleet.events.at(moment + drain_seconds, fleet.stop_server, server)
        fleet.events.at(moment + drain_seconds + down, fleet.start_server, server)

    def undo(_: float) -> None:
        nonlocal called_off
        called_off = True

    for name in fleet.targets if targets is None else targets:
        fleet.events.at(t, restart, fleet.server(name))
        t += drain_seconds + down + pause_seconds
    return undo


def rollout_seconds(fleet: Fleet) -> float:
    """How long a rollout of all servers takes, the pause after the last one included."""
    return len(fleet.targets) * (DRAIN_SECONDS + fleet.topology.restart_seconds + PAUSE_SECONDS)


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
