"""What can go wrong, by name. In: a fleet, a name, a moment. Out: the fleet behaves so from then on, until the end.

An incident is a function that changes the fleet and returns what undoes it. `INCIDENTS` lists them all; not every one
is a fault: some are what a quiet or a busy day looks like and nobody is to be woken for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from agent.demo import deployments
from agent.demo.conditions import Leak
from agent.demo.decode import DecodeEngine
from agent.demo.fleet import Fleet
from agent.demo.traffic import day_level
from agent.errors import ConfigError

Undo = Callable[[float], None]
GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class Incident:
    """One entry of the list. `is_fault` False: nobody should be paged for it.

    `sets_traffic`: it decides how much arrives, so that the last one begun is the one that does. `seconds`: how long
    it takes by itself, of those that end by themselves.
    """

    name: str
    summary: str
    is_fault: bool
    begin: Callable[..., Undo]
    sets_traffic: bool = False
    seconds: Callable[[Fleet], float] | None = None


def incident_named(name: str) -> Incident:
    """Raises ConfigError, with the nearest name, for one that is not there."""
    if name not in INCIDENTS:
        near = get_close_matches(name, INCIDENTS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(INCIDENTS)}"
        raise ConfigError(f"demo: no incident {name!r}; {hint}")
    return INCIDENTS[name]


def start_incident(
    fleet: Fleet, name: str, *, at: float | None = None, until: float | None = None, **options: Any
) -> None:
    """Let an incident begin at `at` (now, when None) and end at `until` (never, when None).

    `options` are the keyword arguments of the incident's function. Raises ConfigError for an unknown name or option.
    """
    incident = incident_named(name)
    known = incident.begin.__kwdefaults__ or {}
    for option in options:
        if option not in known:
            raise ConfigError(f"demo: incident {name!r} has no option {option!r}; it has {', '.join(known) or 'none'}")

    def begin(t: float, _: None) -> None:
        undo = incident.begin(fleet, t, **options)
        if until is not None:
            fleet.events.at(until, lambda end, _: undo(end), None)

    fleet.events.at(fleet.now if at is None else at, begin, None)


# -- memory ---------------------------------------------------------------------------------------------------------


def leak(
    fleet: Fleet,
    t: float,
    *,
    target: str = "decode-0",
    title: str = "VLLM::Worker_DP0_EP0",
    bytes_per_hour: float = 24e9,
) -> Undo:
    """One process's anonymous memory grows in a straight line; it stays as large as it is when that ends."""
    growth = Leak(fleet.server(target).name, title, bytes_per_hour, t)
    fleet.conditions.leaks.append(growth)

    def undo(end: float) -> None:
        growth.until = end

    return undo


# -- decode ---------------------------------------------------------------------------------------------------------


def mtp_collapse(fleet: Fleet, t: float, *, acceptance_factor: float = 0.07) -> Undo:
    """Drafts are hardly ever accepted any more, at every position."""

    def put(moment: float, factor: float) -> None:
        fleet.conditions.acceptance_factor = factor
        for engine in fleet.decode_engines():
            engine.replan(moment)

    put(t, acceptance_factor)
    return lambda end: put(end, 1.0)


def graph_fallback(fleet: Fleet, t: float, *, factor: float = 1.85) -> Undo:
    """Every decode step takes longer from one moment on, at the same batch: batches left the CUDA-graph path."""

    def put(moment: float, by: float) -> None:
        fleet.conditions.step_factor = by
        for engine in fleet.decode_engines():
            engine.refresh(moment)

    put(t, factor)
    return lambda end: put(end, 1.0)


def rank_slow(fleet: Fleet, t: float, *, target: str = "decode-0", engine: int = 0, factor: float = 1.6) -> Undo:
    """One rank's steps take longer than its siblings'."""
    slow = _engine(fleet, target, engine)

    def put(moment: float, by: float) -> None:
        slow.step_factor = by
        slow.refresh(moment)

    put(t, factor)
    return lambda end: put(end, 1.0)


def frozen_engine(fleet: Fleet, t: float, *, target: str = "decode-0", engine: int = 0) -> Undo:
    """One decode engine hangs with work in hand: its gauges stay as they are and no token comes."""
    frozen = _engine(fleet, target, engine)
    frozen.freeze(t)
    return lambda end: None if frozen.dead else frozen.thaw(end)


# -- KV transfer ----------------------------------------------------------------------------------------------------


def kv_slow(fleet: Fleet, t: float, *, factor: float = 40.0) -> Undo:
    """KV transfers take much longer: a lost network path, or a fall back to TCP."""
    del t
    return _condition(fleet, "transfer_factor", factor, 1.0)


def kv_expiry(fleet: Fleet, t: float, *, share: float = 0.2, failing_share: float = 0.25) -> Undo:
    """Leases run out while decode reads: some reads fail, the others end on blocks that may be somebody else's."""
    del t
    undo_share = _condition(fleet, "lapse_share", share, 0.0)
    undo_failing = _condition(fleet, "lapse_fails_share", failing_share, 0.0)

    def undo(end: float) -> None:
        undo_share(end)
        undo_failing(end)

    return undo


def transfer_stall(fleet: Fleet, t: float) -> Undo:
    """Transfers begin and never end; when that is over they begin anew."""
    del t
    fleet.conditions.transfers_stall = True

    def undo(end: float) -> None:
        fleet.conditions.transfers_stall = False
        for engine in fleet.decode_engines():
            engine.resume_transfers(end)

    return undo


def errors(fleet: Fleet, t: float, *, share: float = 0.1) -> Undo:
    """KV of some requests cannot be loaded: they end with reason error and poison the sums of three histograms."""
    del t
    return _condition(fleet, "fail_share", share, 0.0)


def clients_gone(fleet: Fleet, t: float, *, share: float = 0.4) -> Undo:
    """Clients go away between the legs: prefill legs without decode legs, and KV that nobody fetches."""
    del t
    return _condition(fleet, "walk_away_share", share, 0.0)


# -- traffic --------------------------------------------------------------------------------------------------------


def prefill_overload(fleet: Fleet, t: float, *, load: float = 1.3) -> Undo:
    """More arrives than prefill can compute: `load` times its capacity, whatever the hour is."""
    level = day_level(t, fleet.topology.traffic, fleet.arrivals.night_share)
    wanted = load * deployments.prefill_capacity(fleet.topology)
    return _traffic(fleet, t, wanted / (fleet.topology.traffic.peak_requests_per_second * level))


def quiet_night(fleet: Fleet, t: float, *, level: float = 0.0, ramp_seconds: float = 1800.0, steps: int = 6) -> Undo:
    """Traffic ebbs away in steps and comes back the same way: no fault."""
    put = _set_traffic(fleet)

    def ramp(begin: float, low_to: float, high_from: float) -> None:
        for step in range(1, steps + 1):
            factor = high_from + (low_to - high_from) * step / steps
            fleet.events.at(begin + ramp_seconds * (step - 1) / steps, put, factor)

    ramp(t, level, 1.0)
    return lambda end: ramp(end, 1.0, level)


def low_traffic(
    fleet: Fleet,
    t: float,
    *,
    requests_per_minute: float = 0.5,
    slow_after_seconds: float = 120.0,
    slow_prompt_tokens: int = 255_000,
) -> Undo:
    """A request every other minute, one of which has a very long prompt and misses the promise alone: no fault."""
    level = day_level(t, fleet.topology.traffic, fleet.arrivals.night_share)
    peak = fleet.topology.traffic.peak_requests_per_second

    def slow(moment: float, _: None) -> None:
        fleet.submit(moment, slow_prompt_tokens, 0, 300, "stop")

    fleet.events.at(t + slow_after_seconds, slow, None)
    return _traffic(fleet, t, requests_per_minute / 60.0 / (peak * level))


def diurnal(fleet: Fleet, t: float, *, night_share: float = 0.05, peak_factor: float = 1.1) -> Undo:
    """A stronger swing between night and day than usual: no fault."""
    usual = fleet.arrivals.night_share
    fleet.arrivals.night_share = night_share
    undo_rate = _traffic(fleet, t, peak_factor)

    def undo(end: float) -> None:
        fleet.arrivals.night_share = usual
        undo_rate(end)

    return undo


INCIDENTS: Mapping[str, Incident] = MappingProxyType(
    {
        incident.name: incident
        for incident in (
            Incident("leak", "one process's memory grows", True, leak),
            Incident("mtp-collapse", "draft tokens are hardly accepted any more", True, mtp_collapse),
            Incident("graph-fallback", "every decode step takes 1.85 times as long", True, graph_fallback),
            Incident("rank-slow", "one decode rank takes 1.6 times as long", True, rank_slow),
            Incident("frozen-engine", "one decode engine hangs with work in hand", True, frozen_engine),
            Incident("kv-slow", "KV transfers take 40 times as long", True, kv_slow),
            Incident("kv-expiry", "KV leases run out before decode has read", True, kv_expiry),
            Incident("transfer-stall", "KV transfers never end", True, transfer_stall),
            Incident("errors", "KV of some requests cannot be loaded", True, errors),
            Incident("clients-gone", "clients go away between prefill and decode", True, clients_gone),
            Incident("prefill-overload", "more arrives than prefill can compute", True, prefill_overload, True),
            Incident(
                "rollout",
                "servers are restarted one after another",
                False,
                deployments.rollout,
                seconds=deployments.rollout_seconds,
            ),
            Incident("quiet-night", "traffic ebbs away and comes back", False, quiet_night, True),
            Incident("low-traffic", "few requests, one of them slow", False, low_traffic, True),
            Incident("diurnal", "a strong swing between night and day", False, diurnal, True),
        )
    }
)
"""Name -> incident, as `pdwatch demo --incident NAME` takes them."""


def _condition(fleet: Fleet, name: str, value: float, healthy: float) -> Undo:
    setattr(fleet.conditions, name, value)
    return lambda _: setattr(fleet.conditions, name, healthy)


def _traffic(fleet: Fleet, t: float, factor: float) -> Undo:
    put = _set_traffic(fleet)
    put(t, factor)
    return lambda end: put(end, 1.0)


def _set_traffic(fleet: Fleet) -> Callable[[float, float], None]:
    """What sets the rate of arrivals, until another incident takes the traffic over."""
    fleet.arrivals.hand += 1
    hand = fleet.arrivals.hand

    def put(t: float, factor: float) -> None:
        if fleet.arrivals.hand == hand:
            fleet.arrivals.rate_factor = factor
            fleet.expect_arrivals(t)

    return put


def _engine(fleet: Fleet, target: str, engine: int) -> DecodeEngine:
    engines = fleet.server(target).decode_engines
    if not 0 <= engine < len(engines):
        raise ConfigError(f"demo: {target} has no decode engine {engine}; it has {len(engines)}")
    return engines[engine]
