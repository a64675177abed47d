"""Cases of the kind "the agent's own page": what is gone vanishes, and churn leaves nothing behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence

from agent.config import Config, config_from_names
from agent.model import PageObservation
from agent.outputs.live import Live
from agent.outputs.metrics import render
from agent.watch import Watch
from tests.pages import counter, gauge, histogram, page

ROUNDS, TOGETHER = 40, 4


def names_of(numbers: Sequence[int]) -> Config:
    return config_from_names(["prefill-0", *(f"decode-{number}" for number in numbers)])


def text(n: float) -> str:
    return page(
        counter("vllm:generation_tokens_total", 100 * n),
        histogram("vllm:time_to_first_token_seconds", {1.0: n}, 0.5 * n),
        histogram("vllm:request_time_per_output_token_seconds", {0.025: n}, 0.017 * n),
        gauge("vllm:num_requests_running", 3),
    )


def series(live: Live) -> list[str]:
    body, _ = render(live.samples(), "", None)
    return [line for line in body.decode().splitlines() if not line.startswith("#")]


def test_c38_a_removed_target_leaves_the_page_at_once_and_the_pool_counts_the_living_only() -> None:
    clock = [0.0]
    live = Live(Watch(names_of(range(4))), lambda: clock[0], lambda: 10 * clock[0])
    for step in range(3):
        clock[0] = 5.0 * step
        for number in range(4):
            live.observe(PageObservation(clock[0], f"decode-{number}", text(step)))
    assert any('target="decode-3"' in line for line in series(live))
    clock[0] += 5.0
    live.watch.retarget(names_of(range(3)))
    found = series(live)
    assert not any("decode-3" in line for line in found)
    assert live.state().pools["decode"].load.running == 9
    assert live.state().pools["decode"].latency["ttft"].count == 6


def test_c38_pods_that_come_and_go_leave_neither_series_nor_memory() -> None:
    clock = [0.0]
    live = Live(Watch(names_of(range(TOGETHER))), lambda: clock[0], lambda: 10 * clock[0])

    def one_round(turn: int) -> int:
        numbers = range(TOGETHER * turn, TOGETHER * (turn + 1))
        live.watch.retarget(names_of(numbers))
        for step in range(3):
            clock[0] += 5.0
            for number in numbers:
                live.observe(PageObservation(clock[0], f"decode-{number}", text(step)))
        return len(series(live))

    at_first = at_last = 0
    tracemalloc.start()
    for turn in range(10):
        at_first = one_round(turn)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for turn in range(10, ROUNDS):
        at_last = one_round(turn)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert at_last <= at_first + 5
    assert after - before < 250_000
