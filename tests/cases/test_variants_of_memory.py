"""Variants of the cases of host memory: what the container shows decides what pages, and the state says the same."""

from __future__ import annotations

from collections.abc import Callable

from agent.config import config_from_names
from agent.model import CgroupSample, PageObservation, ProcessesObservation, ProcessSample
from agent.state import State
from agent.watch import Watch
from tests.pages import counter, page

MB = 1 << 20
START = 1.79e9


def after(hours: float, samples: Callable[[float], ProcessSample], group: Callable[[float], CgroupSample]) -> State:
    """The state after pages and process readings of `hours`, one every two minutes."""
    watch = Watch(config_from_names(["decode-0"]))
    now = START
    for step in range(int(30 * hours) + 1):
        now, hour = START + 120.0 * step, step / 30
        watch.observe(PageObservation(now, "decode-0", page(counter("vllm:generation_tokens_total", 100 * step))))
        watch.observe(ProcessesObservation(now, "decode-0", (samples(hour),), group(hour)))
    return watch.state(now)


def engine(anon: float, swap: float = 0.0, pid: int = 41, started: float = START - 7200) -> ProcessSample:
    return ProcessSample(
        pid=pid,
        title="VLLM::EngineCore_DP0",
        started_seconds=started,
        kind="engine_core",
        engine="0",
        rss_bytes=round(anon) + 100 * MB,
        anon_bytes=round(anon),
        swap_bytes=round(swap),
    )


def flat_group(_hour: float) -> CgroupSample:
    return CgroupSample(limit_bytes=20_000 * MB, anon_bytes=6_000 * MB, file_bytes=0, shmem_bytes=0)


def test_growth_that_the_container_does_not_show_is_a_warning_in_the_state_as_in_the_problem() -> None:
    state = after(12, lambda h: engine(6_000 * MB, swap=100 * MB * h), flat_group)
    (leak,) = [problem for problem in state.problems if problem.code == "memory_leak"]
    (shown,) = state.memory
    assert (leak.severity, shown.severity) == ("warning", "warning")
    assert shown.trend == "leaking"


def test_c19_a_page_cache_that_fills_the_container_is_never_spoken_of() -> None:
    def group(hour: float) -> CgroupSample:
        cache = round(min(69_000, 5_000 * (hour + 1)) * MB)
        return CgroupSample(limit_bytes=70_000 * MB, anon_bytes=700 * MB, file_bytes=cache, shmem_bytes=100 * MB)

    state = after(16, lambda h: engine(600 * MB), group)
    assert [problem.code for problem in state.problems if problem.code != "metric_missing"] == []
    assert state.memory[0].severity is None


def test_a_pid_that_is_used_again_by_a_fresh_engine_does_not_inherit_the_leak() -> None:
    def one(hour: float) -> ProcessSample:
        return engine(6_000 * MB + 200 * MB * hour) if hour < 8 else engine(6_000 * MB, started=START + 8 * 3600)

    assert any(problem.code == "memory_leak" for problem in after(7.9, one, flat_group).problems)
    state = after(12, one, flat_group)
    assert not [problem for problem in state.problems if problem.code.startswith("memory")]
    assert state.memory[0].trend == "steady"
