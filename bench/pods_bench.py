"""Ten thousand pods that come and go. In: nothing. Out: series on the metrics page and memory, early and late.

    python -m bench.pods_bench

A hundred pods at a time are watched for three scrapes each and then replaced by others, as an autoscaler does it. What
is left of them must be nothing: as many series and as much memory after 10,000 pods as after 1,000.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence

from agent.config import Config, config_from_names
from agent.model import PageObservation
from agent.outputs.live import Live
from agent.watch import Watch

PODS, TOGETHER, SCRAPES = 10_000, 100, 3
EARLY = 1_000


def page(n: int) -> str:
    """A small decode server's page after `n` requests."""
    labels = '{engine="0",model_name="m"'
    return (
        f"# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{labels}}} {100.0 * n}\n"
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        f'vllm:time_to_first_token_seconds_bucket{labels},le="1.0"}} {n}.0\n'
        f'vllm:time_to_first_token_seconds_bucket{labels},le="+Inf"}} {n}.0\n'
        f"vllm:time_to_first_token_seconds_sum{labels}}} {0.5 * n}\n"
        f"vllm:time_to_first_token_seconds_count{labels}}} {n}.0\n"
    )


def fleet(numbers: Sequence[int]) -> Config:
    return config_from_names(["prefill-0", *(f"decode-{number}" for number in numbers)])


def main() -> None:
    clock = [0.0]
    live = Live(Watch(fleet(range(TOGETHER))), lambda: clock[0], lambda: 10 * clock[0])
    begin = time.process_time()
    tracemalloc.start()
    for first in range(0, PODS, TOGETHER):
        numbers = range(first, first + TOGETHER)
        live.retarget(fleet(numbers))
        for scrape in range(SCRAPES):
            clock[0] += 5.0
            for number in numbers:
                live.observe(PageObservation(clock[0], f"decode-{number}", page(scrape)))
        if first + TOGETHER in (EARLY, PODS):
            series = len(live.samples())
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            print(f"after {first + TOGETHER:6} pods: {series} series, {held / 1e6:.2f} MB held")
    print(f"{time.process_time() - begin:.1f} s of CPU with memory traced")


if __name__ == "__main__":
    main()
