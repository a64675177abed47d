"""Small servers for the tests of the objectives: what they are told to have served is what their pages show."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent.config import Config, Contract, Objective, config_from_names
from agent.model import FailureObservation, PageObservation
from agent.verdicts.budgets import TierChange
from agent.verdicts.judging import Verdict
from agent.verdicts.objectives import Change, Objectives
from agent.watch import Watch
from tests.pages import counter, gauge, histogram, page

EDGES: Mapping[str, tuple[float, ...]] = {
    "ttft": (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    "tpot": (0.01, 0.025, 0.05, 0.1, 0.5, 1.0),
    "itl": (0.01, 0.025, 0.05, 0.1, 0.5, 1.0),
    "e2e": (0.3, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
    "queue": (0.3, 0.5, 1.0, 2.5, 5.0),
    "prompt_tokens": (5000.0, 10000.0, 20000.0, 50000.0, 100000.0, 200000.0),
    "generation_tokens": (1.0, 10.0, 100.0, 1000.0),
}
FAMILIES = {
    "ttft": "vllm:time_to_first_token_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "prompt_tokens": "vllm:request_prompt_tokens",
    "generation_tokens": "vllm:request_generation_tokens",
}


@dataclass
class Server:
    """Counts for ever, as a server does. `without`: families that its version lacks; `started`: its process's start."""

    without: frozenset[str] = frozenset()
    running: float = 0.0
    started: float | None = None
    finished: float = 0.0
    errors: float = 0.0
    generated: float = 0.0
    counts: dict[str, list[float]] = field(
        default_factory=lambda: {name: [0.0] * (len(edges) + 1) for name, edges in EDGES.items()}
    )
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(EDGES, 0.0))

    def saw(self, family: str, value: float, times: int = 1) -> None:
        self.counts[family][bisect_left(EDGES[family], value)] += times
        self.sums[family] += value * times

    def prefilled(self, seconds: float, times: int = 1, prompt: int = 30000) -> None:
        """Prefill legs that ended."""
        for family in ("ttft", "e2e"):
            self.saw(family, seconds, times)
        for family, value in (("prompt_tokens", prompt), ("generation_tokens", 1), ("tpot", 0.0)):
            self.saw(family, value, times)
        self.finished += times
        self.generated += times

    def decoded(self, tpot: float, times: int = 1, tokens: int = 51, prompt: int = 30000, ttft: float = 0.05) -> None:
        """Decode legs that began and ended."""
        for family, value in (("ttft", ttft), ("tpot", tpot), ("prompt_tokens", prompt), ("generation_tokens", tokens)):
            self.saw(family, value, times)
        self.steps(tpot, times * (tokens - 1))
        self.saw("e2e", ttft + tpot * (tokens - 1), times)
        self.finished += times
        self.generated += times

    def steps(self, seconds: float, times: int) -> None:
        """Tokens of requests that go on."""
        self.saw("itl", seconds, times)
        self.generated += times

    def page(self) -> str:
        families = [
            counter("vllm:generation_tokens_total", self.generated),
            counter("vllm:request_success_total", self.finished, finished_reason="stop"),
            counter("vllm:request_success_total", self.errors, finished_reason="error"),
            gauge("vllm:num_requests_running", self.running),
        ]
        if self.started is not None:
            families.append(gauge("process_start_time_seconds", self.started, engine=None))
        for name, edges in EDGES.items():
            if name not in self.without:
                counts = self.counts[name]
                total = {edge: sum(counts[: i + 1]) for i, edge in enumerate(edges)}
                total[float("inf")] = sum(counts)
                families.append(histogram(FAMILIES[name], total, self.sums[name]))
        return page(*families)


class Fleet:
    """A watch with its objectives over servers of the test's making, evaluated after every round of pages."""

    def __init__(
        self, *promises: Objective, servers: Mapping[str, Server], every: float = 15.0, **changed: Any
    ) -> None:
        plain = config_from_names(servers)
        contract = changed.pop("contract", Contract())
        self.config = Config(pools=plain.pools, contract=contract, **changed)
        if promises:
            self.config = replace(self.config, objectives=promises)
        self.servers = dict(servers)
        self.watch = Watch(self.config)
        self.objectives = Objectives(self.config)
        self.every = every
        self.now = 1795970000.0
        self.changes: list[tuple[float, Change | TierChange]] = []

    def round(self, failing: frozenset[str] = frozenset()) -> None:
        """Fetches every page (or fails to) and judges."""
        for name, server in self.servers.items():
            if name in failing:
                self.watch.observe(FailureObservation(self.now, name, "timeout"))
            else:
                self.watch.observe(PageObservation(self.now, name, server.page()))
        found = self.objectives.evaluate(self.watch.windows, self.watch.facts.pools, self.now)
        self.changes += [(self.now, change) for change in found]
        self.now += self.every

    def verdict(self, name: str) -> Verdict:
        """The last verdict of the objective of that name."""
        return next(verdict for (objective, _), verdict in self.objectives.verdicts.items() if objective == name)

    def status(self, name: str) -> str:
        """The last status of the objective of that name."""
        last = self.now - self.every
        return next(state.status for state in self.objectives.states(last) if state.objective == name)
