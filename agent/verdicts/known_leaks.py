"""Known leaks of vLLM and what runs with it: a growing process comes in, what it looks like goes out.

Matched by what can be seen from outside: which process, which pool, what it follows, how fast. Never certain, so it is
said as "looks like"; the reference leads to the report and its fix.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.indicators.memory.follows import Unit
from agent.model import ProcessKind, Role

MIB = float(1 << 20)


@dataclass(frozen=True, slots=True)
class KnownLeak:
    """One published leak. Empty sets and None fit everything; rates in bytes per hour."""

    name: str
    kinds: frozenset[ProcessKind]
    roles: frozenset[Role]
    follows: frozenset[Unit]
    least_rate: float
    most_rate: float
    reference: str
    remedy: str


KNOWN: tuple[KnownLeak, ...] = (
    KnownLeak(
        "mmap hooks of UCX under NIXL (anonymous mappings outside the heap; heap profilers stay flat)",
        frozenset({"engine_core", "worker"}),
        frozenset({"decode", "prefill"}),
        frozenset({"request", "token", "hour", "step"}),
        2000 * MIB,
        60_000 * MIB,
        "vLLM pull requests 32181 and 32570, issue 24264",
        "start with UCX_MEM_MMAP_HOOK_MODE=none, or take a vLLM that sets it",
    ),
    KnownLeak(
        "a per-step list of the scheduler that is never drained (new_block_ids)",
        frozenset({"engine_core"}),
        frozenset(),
        frozenset({"step", "token", "request", "hour"}),
        2 * MIB,
        1500 * MIB,
        "vLLM issue 44175, pull request 44490, also 47723",
        "take a vLLM with pull request 44490; until then restart on purpose",
    ),
    KnownLeak(
        "LMCache embedded in the engine, whose memory is not bounded by its setting",
        frozenset({"engine_core"}),
        frozenset(),
        frozenset({"token", "request"}),
        100 * MIB,
        60_000 * MIB,
        "LMCache issue 3767",
        "look at LMCache's version and its local CPU limit",
    ),
    KnownLeak(
        "the send path of pipeline parallelism without peer-to-peer copies",
        frozenset({"worker"}),
        frozenset(),
        frozenset({"request", "token"}),
        20 * MIB,
        20_000 * MIB,
        "intel/llm-scaler issue 590",
        "only the first pipeline rank grows: compare the ranks",
    ),
    KnownLeak(
        "allocator arenas after aborted requests, which a trim gives back",
        frozenset({"api_server"}),
        frozenset(),
        frozenset({"request"}),
        10 * MIB,
        5000 * MIB,
        "vllm-omni issue 6462",
        "set MALLOC_ARENA_MAX or MALLOC_TRIM_THRESHOLD_; not a leak if a trim returns it",
    ),
)


def looks_like(kind: ProcessKind, role: Role | None, follows: Unit | None, bytes_per_hour: float) -> KnownLeak | None:
    """The first published leak that fits what is known; the order of `KNOWN` is from the most to the least specific."""
    for leak in KNOWN:
        fits = (
            kind in leak.kinds
            and (not leak.roles or role is None or role in leak.roles)
            and (follows is None or follows in leak.follows)
            and leak.least_rate <= bytes_per_hour <= leak.most_rate
        )
        if fits:
            return leak
    return None
