"""Which pool is short: the cases of imbalance, as problems."""

from __future__ import annotations

from agent.indicators.pools import PoolFacts
from agent.verdicts.queues import queue_problems
from agent.windows.increase import Increase
from tests.verdicts.pools import decoded, history_of, pool_with

END = 36_000.0


def minute(kv_usage: float, waiting: float, deferred: float = 0.0, running: float = 3.0) -> Increase:
    gauges = {
        ("waiting", ""): waiting + deferred,
        ("waiting_by_reason", "capacity"): waiting,
        ("waiting_by_reason", "deferred"): deferred,
    }
    return decoded(kv_usage=kv_usage, running=running, gauges=gauges)


def found(prefill: list[Increase], decode: list[Increase]) -> dict[str, str]:
    pools: list[PoolFacts] = [
        pool_with(prefill[-1], "prefill", "prefill"),
        pool_with(decode[-1], "decode", "decode"),
    ]
    histories = {"prefill": history_of(prefill, END), "decode": history_of(decode, END)}
    return {problem.code: problem.text for problem in queue_problems(pools, histories, END - 300, END)}


def test_c34_prefill_queues_because_decode_is_full() -> None:
    prefill = [minute(u, w) for u, w in ((0.55, 0), (0.70, 4), (0.83, 9), (0.91, 15), (0.96, 22))]
    decode = [minute(0.97, 0, deferred=d, running=256) for d in (0, 6, 11, 17, 25)]
    said = found(prefill, decode)
    assert said["pool_imbalance"].startswith("decode-bound")
    assert "queue_buildup" in said


def test_c34_prefill_is_short_itself_when_decode_is_empty() -> None:
    prefill = [minute(0.32, w) for w in (0, 10, 20, 30, 40)]
    said = found(prefill, [minute(0.20, 0)] * 5)
    assert said["pool_imbalance"].startswith("prefill-bound")


def test_a_queue_that_comes_and_goes_is_no_build_up() -> None:
    assert found([minute(0.3, w) for w in (5, 9, 4, 8, 6)], [minute(0.2, 0)] * 5) == {}


def test_a_busy_pool_without_a_queue_is_no_problem() -> None:
    assert found([minute(0.5, 0)] * 5, [minute(0.95, 0, deferred=0, running=256)] * 5) == {}
