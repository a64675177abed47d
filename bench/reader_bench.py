"""How fast pages are read. In: nothing. Out: samples per second of the page reader and of prometheus_client's parser.

    python -m bench.reader_bench

Both read the same pages in the same run: consecutive pages of one decode server with 8 engines, a quarter of whose
lines change from page to page (and, apart, most of them), then a page that the reader has never seen, then one round
of a fleet: four prefill servers with 4 engines each and one decode server with 8. Times are CPU times, medians.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from agent.reading.page import PageReader

TTFT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
REQUEST = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
TOKENS = tuple(float(digit * 10**power) for power in range(6) for digit in (1, 2, 5))[:-1]
ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TRANSFER = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5)
DESCRIPTORS = (10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000)

# Family -> edges and the typical value of one request.
HISTOGRAMS: dict[str, tuple[Sequence[float], float]] = {
    "time_to_first_token_seconds": (TTFT, 0.4),
    "inter_token_latency_seconds": (ITL, 0.03),
    "request_time_per_output_token_seconds": (ITL, 0.017),
    "e2e_request_latency_seconds": (REQUEST, 14),
    "request_queue_time_seconds": (REQUEST, 0.2),
    "request_inference_time_seconds": (REQUEST, 13),
    "request_prefill_time_seconds": (REQUEST, 0.05),
    "request_decode_time_seconds": (REQUEST, 12),
    "request_prompt_tokens": (TOKENS, 60_000),
    "request_generation_tokens": (TOKENS, 700),
    "request_max_num_generation_tokens": (TOKENS, 700),
    "request_params_max_tokens": (TOKENS, 2_000),
    "request_prefill_kv_computed_tokens": (TOKENS, 60_000),
    "request_params_n": ((1, 2, 5, 10, 20), 1),
    "request_num_preemptions": ((1, 2, 3, 4, 5, 10, 20), 0.001),
    "iteration_tokens_total": (ITERATION, 60),
    "nixl_xfer_time_seconds": (TRANSFER, 0.06),
    "nixl_post_time_seconds": ((0.001, *TRANSFER), 0.004),
    "nixl_bytes_transferred": (tuple(2.0**power for power in range(11, 34, 2)), 1e9),
    "nixl_num_descriptors": (DESCRIPTORS, 800),
}
MOVING_COUNTERS = (
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
    "spec_decode_num_drafts",
    "spec_decode_num_draft_tokens",
    "spec_decode_num_accepted_tokens",
    "prompt_tokens_cached",
)
STILL_COUNTERS = (
    "num_preemptions",
    "prefix_cache_hits",
    "mm_cache_queries",
    "mm_cache_hits",
    "nixl_num_failed_transfers",
    "nixl_num_failed_notifications",
    "nixl_num_kv_expired_reqs",
    "nixl_num_notifications_after_expiry",
    "estimated_flops_per_gpu",
    "estimated_read_bytes_per_gpu",
    "estimated_write_bytes_per_gpu",
)
LABELLED_COUNTERS = {
    "spec_decode_num_accepted_tokens_per_pos": ("position", ("0", "1", "2")),
    "prompt_tokens_by_source": ("source", ("local_compute", "local_cache_hit", "external_kv_transfer")),
    "request_success": ("finished_reason", ("stop", "length", "abort", "error", "repetition")),
}
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")

SETTLED = 15
"""Pages after which a reader knows what moves."""


class Server:
    """Pages of a simulated server as vLLM renders them in multi-process mode."""

    def __init__(self, engines: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._engines = range(engines)
        self._counts = {(f, e): [0] * (len(HISTOGRAMS[f][0]) + 1) for f in HISTOGRAMS for e in self._engines}
        self._sums = dict.fromkeys(self._counts, 0.0)
        self._totals: dict[tuple[str, int, str], float] = {}
        for _ in range(300):
            self.serve(1.0)

    def serve(self, busy: float) -> None:
        """Let a share of the engines finish a request."""
        for engine in self._engines:
            if self._chance.random() >= busy:
                continue
            for family, (edges, typical) in HISTOGRAMS.items():
                value = typical * self._chance.lognormvariate(0, 0.4)
                self._counts[family, engine][bisect_left(edges, value)] += 1
                self._sums[family, engine] += value
            for family in MOVING_COUNTERS:
                self._add(family, engine, "", self._chance.randrange(1, 5000))
            for position in ("0", "1", "2"):
                self._add("spec_decode_num_accepted_tokens_per_pos", engine, position, self._chance.randrange(1, 400))
            self._add("prompt_tokens_by_source", engine, "external_kv_transfer", self._chance.randrange(1, 5000))
            self._add("request_success", engine, "stop", 1)

    def _add(self, family: str, engine: int, label: str, amount: float) -> None:
        self._totals[family, engine, label] = self._totals.get((family, engine, label), 0.0) + amount

    def page(self) -> str:
        """The page as it stands."""
        lines: list[str] = []
        for family in (*MOVING_COUNTERS, *STILL_COUNTERS):
            self._counters(lines, family, "", ("",))
        for family, (label, values) in LABELLED_COUNTERS.items():
            self._counters(lines, family, label, values)
        for family, (edges, _) in HISTOGRAMS.items():
            lines += [f"# HELP vllm:{family} Histogram of {family}.", f"# TYPE vllm:{family} histogram"]
            for engine in self._engines:
                labels = f'engine="{engine}",model_name="glm"'
                lines.append(f"vllm:{family}_sum{{{labels}}} {self._sums[family, engine]!r}")
                count = 0
                for edge, added in zip((*edges, inf), self._counts[family, engine], strict=True):
                    count += added
                    bound = "+Inf" if edge == inf else repr(float(edge))
                    lines.append(
                        f'vllm:{family}_bucket{{engine="{engine}",le="{bound}",model_name="glm"}} {float(count)!r}'
                    )
                lines.append(f"vllm:{family}_count{{{labels}}} {float(count)!r}")
        for family in GAUGES:
            lines += [f"# HELP vllm:{family} Gauge of {family}.", f"# TYPE vllm:{family} gauge"]
            lines += [
                f'vllm:{family}{{engine="{e}",model_name="glm"}} {self._chance.randrange(40) / 4!r}'
                for e in self._engines
            ]
        return "\n".join(lines) + "\n"

    def _counters(self, lines: list[str], family: str, label: str, values: Sequence[str]) -> None:
        lines += [f"# HELP vllm:{family}_total Counter of {family}.", f"# TYPE vllm:{family}_total counter"]
        for value in values:
            own = f',{label}="{value}"' if label else ""
            for engine in self._engines:
                total = self._totals.get((family, engine, value), 0.0)
                lines.append(f'vllm:{family}_total{{engine="{engine}",model_name="glm"{own}}} {total!r}')


def consecutive(engines: int, seed: int, busy: float, count: int = 40) -> list[str]:
    """Return pages of one server, between which a share of its engines finished a request."""
    server = Server(engines, seed)
    pages = []
    for _ in range(count):
        server.serve(busy)
        pages.append(server.page())
    return pages


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU seconds of one run."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def changed_share(pages: Sequence[str]) -> float:
    """Return the mean share of lines that differ between consecutive pages."""
    shares = []
    for before, after in pairwise(pages):
        lines = list(zip(before.split("\n"), after.split("\n"), strict=True))
        shares.append(sum(a != b for a, b in lines) / len(lines))
    return sum(shares) / len(shares)


def parse(text: str) -> int:
    """Read a page with prometheus_client; returns the number of its samples."""
    return sum(len(family.samples) for family in text_string_to_metric_families(text))


class Times(NamedTuple):
    """Median CPU seconds for a page: of a reader that follows, of one that sees its first page, of the client."""

    following: float
    first: float
    client: float


def times(pages: Sequence[str]) -> Times:
    """Measure all three on each page in turn, so that whatever else the machine does burdens all alike."""
    reader = PageReader()
    taken = []
    for text in pages:
        following = seconds(partial(reader.read, 0.0, "decode-0", text))
        first = seconds(partial(PageReader().read, 0.0, "decode-0", text))
        taken.append((following, first, seconds(partial(parse, text))))
    return Times(*map(median, zip(*taken[SETTLED:], strict=True)))


def read_round(readers: Sequence[PageReader], pages: Sequence[str]) -> None:
    """Read one page of every server of a fleet."""
    for reader, text in zip(readers, pages, strict=True):
        reader.read(0.0, "server", text)


def held_bytes(pages: Sequence[str]) -> tuple[int, int]:
    """Return what a reader holds after these pages, and a second one, which shares the keys of its lines with it."""
    PageReader().read(0.0, "decode-0", pages[0])
    tracemalloc.start()
    marks = [tracemalloc.get_traced_memory()[0]]
    readers = [PageReader(), PageReader()]
    for reader in readers:
        for text in pages:
            reader.read(0.0, "decode-0", text)
        marks.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return marks[1] - marks[0], marks[2] - marks[1]


def main() -> None:
    """Print the figures."""
    quarter = consecutive(8, 1, 0.4)
    most = consecutive(8, 2, 1.0)
    samples = parse(quarter[0])
    print(f"page: 8 engines, {samples} samples, {len(quarter[0]) / 1024:.0f} KiB")
    for pages in (quarter, most):
        took = times(pages)
        print(f"{changed_share(pages[SETTLED:]):.0%} of lines change from page to page")
        for what, each in (
            ("prometheus_client", took.client),
            ("consecutive", took.following),
            ("never seen", took.first),
        ):
            rate, times_as_many = samples / each, took.client / each
            print(f"  {what:18}{each * 1e3:8.2f} ms a page {rate:12,.0f} samples/s {times_as_many:6.1f} times as many")

    alone, further = held_bytes(most)
    print(f"held for a target with 8 engines: {alone / 1024:.0f} KiB, for a further one {further / 1024:.0f} KiB")

    fleet = [consecutive(4, 10 + seed, 0.4) for seed in range(4)] + [quarter]
    readers = [PageReader() for _ in fleet]
    rounds = [seconds(partial(read_round, readers, pages)) for pages in zip(*fleet, strict=True)]
    print(f"one round of 5 pages with 24 engines: {median(rounds[SETTLED:]) * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
