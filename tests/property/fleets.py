"""Random fleets. In: draws. Out: what every server did between its pages, and the pages as their text.

A server is a process with engines that count for ever. Between two pages its engines serve requests; it may restart
(everything counts from 0, the process start time moves), a page may be lost, and an engine may miss on a page.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.pages import counter, gauge, histogram, page

BEGAN, EVERY_SECONDS = 1_000_000.0, 5.0
TTFT_EDGES, TPOT_EDGES, E2E_EDGES, TOKEN_EDGES = (0.1, 0.5, 1.0, 2.5), (0.01, 0.025, 0.05), (0.3, 1.0, 5.0), (1.0, 10.0)
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": TTFT_EDGES,
    "vllm:request_time_per_output_token_seconds": TPOT_EDGES,
    "vllm:e2e_request_latency_seconds": E2E_EDGES,
    "vllm:request_generation_tokens": TOKEN_EDGES,
}
COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
)


@dataclass(frozen=True)
class Request:
    """One leg that began and ended between two pages. Times in seconds."""

    ttft: float
    tpot: float
    prompt: int
    tokens: int
    drafts: int
    accepted: int

    def values(self) -> dict[str, float]:
        """Family -> what this leg records there; a leg with one token records a TPOT of 0."""
        tpot = self.tpot if self.tokens > 1 else 0.0
        return {
            "vllm:time_to_first_token_seconds": self.ttft,
            "vllm:request_time_per_output_token_seconds": tpot,
            "vllm:e2e_request_latency_seconds": self.ttft + tpot * (self.tokens - 1),
            "vllm:request_generation_tokens": self.tokens,
        }


@dataclass
class Counts:
    """What one engine shows: counters, and cumulative counts and sums of histograms."""

    counters: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    counts: dict[str, list[float]] = field(
        default_factory=lambda: {name: [0.0] * (len(edges) + 1) for name, edges in HISTOGRAMS.items()}
    )
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0.0))

    def serve(self, request: Request) -> None:
        for name, value in request.values().items():
            self.counts[name][bisect_left(HISTOGRAMS[name], value)] += 1
            self.sums[name] += value
        given = (request.prompt, request.tokens, request.drafts, 3 * request.drafts, request.accepted)
        for name, more in zip(COUNTERS, given, strict=True):
            self.counters[name] += more

    def text(self, engine: str) -> list[str]:
        families = [counter(name, value, engine) for name, value in self.counters.items()]
        for name, counts in self.counts.items():
            edges = [*HISTOGRAMS[name], float("inf")]
            cumulative = {edge: sum(counts[: place + 1]) for place, edge in enumerate(edges)}
            families.append(histogram(name, cumulative, self.sums[name], engine))
        return families


@dataclass(frozen=True)
class Turn:
    """One scrape of one target: what happened since the last one, and what the page shows of it."""

    served: tuple[tuple[Request, ...], ...]
    """Per engine, after the restart if there was one."""
    restarted: bool
    lost: bool
    absent: frozenset[int]
    """Engines that miss on the page; never all of them."""


def pages_of(turns: list[Turn], engines: int) -> list[str | None]:
    """The text of each turn's page; None where it was lost."""
    shown: list[str | None] = []
    state, started = [Counts() for _ in range(engines)], BEGAN - 1000.0
    for number, turn in enumerate(turns):
        if turn.restarted:
            state, started = [Counts() for _ in range(engines)], BEGAN + EVERY_SECONDS * number - 2.0
        for engine, requests in zip(state, turn.served, strict=True):
            for request in requests:
                engine.serve(request)
        families = [gauge("process_start_time_seconds", started, engine=None)]
        for rank, engine in enumerate(state):
            if rank not in turn.absent:
                families += engine.text(str(rank))
        shown.append(None if turn.lost else page(*families))
    return shown


REQUESTS = st.builds(
    Request,
    ttft=st.sampled_from([0.015625, 0.25, 0.75, 2.0, 7.5]),
    tpot=st.sampled_from([0.0078125, 0.015625, 0.03125, 0.5]),
    prompt=st.integers(1, 100_000),
    tokens=st.sampled_from([1, 1, 2, 9, 700]),
    drafts=st.integers(0, 50),
    accepted=st.integers(0, 150),
)


def turns(engines: int) -> st.SearchStrategy[list[Turn]]:
    """A server's whole life: a dozen pages."""
    served = st.tuples(*[st.lists(REQUESTS, max_size=3).map(tuple) for _ in range(engines)])
    absent = st.frozensets(st.integers(1, engines - 1), max_size=engines - 1) if engines > 1 else st.just(frozenset())
    rarely = st.integers(0, 7).map(lambda drawn: drawn == 7)
    turn = st.builds(Turn, served, restarted=rarely, lost=rarely, absent=st.one_of(st.just(frozenset()), absent))
    return st.lists(turn, min_size=3, max_size=12)
