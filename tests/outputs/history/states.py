"""States for the history's tests. In: a time and the few numbers that a test is about. Out: a whole state."""

from dataclasses import replace

from agent.state import (
    Bounded,
    Distribution,
    KvTransfer,
    Load,
    MemoryState,
    PoolState,
    Speculation,
    State,
    SystemState,
    SystemTtft,
    Throughput,
    TtftParts,
    VerdictState,
)

BEGIN = 1_795_000_020.0
"""A whole minute."""
NOTHING = Distribution("not_applicable")


def process(target: str, title: str, anon_bytes: int | None, pid: int = 1) -> MemoryState:
    unknown = Bounded(None, None, None)
    return MemoryState(
        target, pid, None, title, "engine_core", None, None, anon_bytes, None, None, None, "steady", None, unknown,
        None, unknown, None, 0.0,
    )  # fmt: skip


def verdict(value: float | None, low: float | None, high: float | None) -> VerdictState:
    return VerdictState("tpot", "decode", "met", "ok", None, "request_mean", value, low, high, 0.02, 7)


def decode(tpot: float | None, count: int, running: float | None = 3.0) -> PoolState:
    status = "ok" if count else "no_data"
    dist = Distribution(status, count, tpot)  # type: ignore[arg-type]
    transfer = KvTransfer(None, Distribution("metric_missing"), NOTHING, None, None, None, None, None, None, None, None)
    return PoolState(
        role="decode",
        gpus=None,
        targets={},
        latency={"ttft": NOTHING, "tpot": dist},
        tpot_token_mean=tpot,
        tpot_mix_difference=None,
        throughput=Throughput(requests_per_s=0.5),
        speculation=Speculation(10, 30, 12, 0, 0.4, 2.2, (), ()),
        kv_transfer=transfer,
        load=Load(running=running, waiting=0.0, kv_usage_max=0.5),
        outcomes={"stop": 90, "error": 10},
        http={"5xx": 4},
    )


def state(at: float, ttft: float | None = 2.0, count: int = 4, tpot: float | None = 0.02) -> State:
    system = SystemTtft("ok", count, ttft, {}, "composed", TtftParts(None, None))
    return State(at, 300.0, {"decode": decode(tpot, count)}, SystemState(system, None, None))


def with_memory(of: State, *memory: MemoryState) -> State:
    return replace(of, memory=memory)
