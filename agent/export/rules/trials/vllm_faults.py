"""What goes wrong in the trials on vLLM's metrics. In: a stage. Out: faults, each with what fires by it.

Faults that do not touch each other are played at once: a trial costs an evaluation of every rule at every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.config import Pool
from agent.export.rules.identity import rule_of
from agent.export.rules.trials.model import Fired
from agent.export.rules.trials.stage import Stage

Overrides = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """Pool -> what is out of the ordinary: `under` for `under_steps` fires nothing, `over` for `over_steps` does.

    `day_steps`: of an ordinary day before. `shown`: the alerts outlast the trial, and their end is not seen.
    """

    name: str
    under: Mapping[str, Overrides]
    over: Mapping[str, Overrides]
    under_steps: int
    over_steps: int
    fired: tuple[Fired, ...]
    day_steps: int = 12
    shown: bool = field(default=False)


class Faults:
    """All faults of one stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._pools = stage.config.pools
        self._decode = [pool for pool in self._pools if pool.role == "decode"]
        self._prefill = [pool for pool in self._pools if pool.role == "prefill"]
        self._drafting = [pool for pool in self._pools if pool.role != "prefill"]

    def all(self) -> Iterator[Fault]:
        """Those that are played one by one."""
        yield self._counts_and_roles()
        yield self._queues()
        if self._decode and self._prefill:
            yield self._decode_bound()
        if self._drafting:
            yield from self._drafts()
            yield self._longer_steps()

    def standing(self) -> Iterator[Fault]:
        """Those in which nothing moves, short enough to be played one after another."""
        still = {"requests": 0, "running": 8}
        yield self._engines("engines stand still", "engine_frozen", self._pools, still, {"value": "8"}, 1, 14)
        pinned = {"requests": 0, "running": 0, "capacity": 4, "kv_usage": 0.96875}
        yield self._engines("caches are pinned", "kv_pinned", self._pools, pinned, {"value": "96.88%"}, 1, 5)
        if self._decode:
            stalled = {"requests": 0, "running": 0, "deferred": 4, "in_progress": 4}
            yield self._engines("KV stalls", "kv_stalled", self._decode, stalled, {"value": "4"}, 2, 6)

    def _engines(
        self,
        name: str,
        code: str,
        pools: list[Pool] | tuple[Pool, ...],
        overrides: Overrides,
        told: Mapping[str, str],
        under_steps: int,
        over_steps: int,
    ) -> Fault:
        """The same standstill in these pools, while the others have nothing to do."""
        idle = {"requests": 0, "running": 0}
        everywhere = {pool.name: overrides if pool in pools else idle for pool in self._pools}
        fired = tuple(
            self._stage.fired(rule_of(code).name, told, scope=pool.name, target=self._stage.target(pool), engine="0")
            for pool in pools
        )
        return Fault(name, everywhere, everywhere, under_steps, over_steps, fired)

    def _counts_and_roles(self) -> Fault:
        """Counters that should not move, and traffic that looks like the other role's."""
        under: dict[str, Overrides] = {}
        over: dict[str, Overrides] = {}
        fired = []
        for pool in self._pools:
            less: dict[str, Any] = {"requests": 256, "failed": 2}
            more: dict[str, Any] = {"requests": 256, "failed": 4, "expired": 1, "failed_transfers": 1}
            codes = ["errors_high", "kv_expired", "transfer_failures"]
            if pool.role == "decode":
                less["one_token"], more["one_token"], more["local_tokens"] = 248, 256, 64
                codes += ["local_recompute", "role_mismatch"]
            elif pool.role == "prefill":
                less["steps_on_prefill"], more["steps_on_prefill"] = 248, 512
                codes.append("role_mismatch")
            under[pool.name], over[pool.name] = less, more
            fired += [self._of(code, pool) for code in codes]
        return Fault("errors, leases, transfers, roles", under, over, 12, 24, tuple(fired))

    def _queues(self) -> Fault:
        growing = [step * step / 4 for step in range(64)]
        fired = [self._of("queue_buildup", pool) for pool in self._pools]
        if self._decode:
            fired += [self._of("pool_imbalance", pool) for pool in self._prefill]
        return Fault(
            "queues grow",
            {pool.name: {"capacity": 8} for pool in self._pools},
            {pool.name: {"capacity": growing} for pool in self._pools},
            14,
            26,
            tuple(fired),
        )

    def _decode_bound(self) -> Fault:
        """Decode is full and gives up requests: it bounds the deployment, and legs do not match."""
        full = {"deferred": 4, "requests": 24 / len(self._decode)}
        under = {pool.name: {**full, "kv_usage": 0.875, "requests": 31 / len(self._decode)} for pool in self._decode}
        over = {pool.name: {**full, "kv_usage": 0.9375} for pool in self._decode}
        scale = 1 / len(self._prefill)
        few: dict[str, Overrides] = {pool.name: {"requests": 32 * scale} for pool in self._prefill}
        fired = [
            self._stage.fired(rule_of("pool_imbalance").name, {"value": "93.75%"}, scope=pool.name)
            for pool in self._decode
        ]
        fired.append(self._stage.fired(rule_of("legs_unmatched").name, scope="system"))
        return Fault("decode is full", {**few, **under}, {**few, **over}, 22, 24, tuple(fired))

    def _drafts(self) -> Iterator[Fault]:
        fired = tuple(self._of("speculation_ineffective", pool) for pool in self._drafting)
        none = {pool.name: {"accepted": 0} for pool in self._drafting}
        yield Fault("no draft is accepted", {}, none, 1, 24, fired, day_steps=8)
        fired = tuple(self._of("speculation_collapsed", pool) for pool in self._drafting)
        less = {pool.name: {"accepted": 0.6} for pool in self._drafting}
        few = {pool.name: {"accepted": 0.28} for pool in self._drafting}
        yield Fault("few drafts are accepted", less, few, 14, 24, fired, day_steps=12)

    def _longer_steps(self) -> Fault:
        fired = tuple(self._of("latency_step_change", pool) for pool in self._drafting)
        under = {pool.name: {"step": self._stage.step * 1.25} for pool in self._drafting}
        over = {pool.name: {"step": self._stage.step * 2.25} for pool in self._drafting}
        return Fault("steps get longer at the same load", under, over, 6, 12, fired, day_steps=28, shown=True)

    def _of(self, code: str, pool: Pool) -> Fired:
        return self._stage.fired(rule_of(code).name, scope=pool.name)
