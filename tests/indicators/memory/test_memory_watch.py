"""The memory watch over process readings: identity, restarts, limits, what growth follows, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.indicators.memory.follows import Counts, Following
from agent.indicators.memory.settings import TrendSettings
from agent.indicators.memory.watch import MemoryWatch, memory_state
from agent.model import CgroupSample, ProcessesObservation, ProcessSample, Role
from agent.verdicts.memory import memory_problems
from agent.windows.work import WorkDone

MB = 1 << 20
START = 1_000_000.0


def process(
    pid: int, anon: float, title: str = "VLLM::EngineCore_DP0", engine: str | None = "0", started: float = START
) -> ProcessSample:
    return ProcessSample(
        pid=pid,
        title=title,
        started_seconds=started,
        kind="engine_core",
        engine=engine,
        rss_bytes=round(anon) + 100 * MB,
        anon_bytes=round(anon),
        swap_bytes=0,
    )


class Host:
    """A memory watch fed every five minutes, with answers of the server beside."""

    def __init__(self, targets: tuple[str, ...] = ("decode-0",)) -> None:
        roles: dict[str, Role] = {name: "prefill" if name.startswith("prefill") else "decode" for name in targets}
        self.watch = MemoryWatch({name: WorkDone() for name in targets}, roles)
        self.roles = roles
        self.now = START

    def run(
        self,
        rounds: int,
        samples: Callable[[float], tuple[ProcessSample, ...]],
        cgroup: Callable[[float], CgroupSample | None] = lambda hours: None,
        target: str = "decode-0",
        every: float = 300.0,
    ) -> None:
        for _ in range(rounds):
            hours = (self.now - START) / 3600
            self.watch.page_seen(target, self.now)
            self.watch.observe(ProcessesObservation(self.now, target, samples(hours), cgroup(hours)))
            self.now += every

    def said(self) -> dict[str, str]:
        growths = tuple(self.watch.growths(self.now))
        return {
            f"{problem.code}:{problem.process}:{problem.severity}": problem.text
            for problem in memory_problems(growths, self.roles, 7 * 24.0, self.now)
        }


def limited(anon: Callable[[float], float], limit: float) -> Callable[[float], CgroupSample]:
    return lambda hours: CgroupSample(
        limit_bytes=round(limit), anon_bytes=round(anon(hours)), file_bytes=0, shmem_bytes=0
    )


def leaking(hours: float) -> float:
    return 41_000 * MB + 24_000 * MB * max(0.0, hours - 1.0)


def test_c16_a_fast_straight_leak_of_decode_pages_within_an_hour_of_growth_with_half_the_headroom_left() -> None:
    host = Host(("decode-0", "prefill-0"))
    limit = 120_000.0 * MB
    for _ in range(4 * 60):  # thirty seconds a round: one hour of warm-up, one hour of growth
        host.run(1, lambda h: (process(41, leaking(h)),), limited(leaking, limit), every=0.0)
        host.run(1, lambda h: (process(51, 38_000 * MB),), target="prefill-0", every=30.0)
        if host.said():
            break
    (said,) = [text for key, text in host.said().items() if key.startswith(("memory_leak", "oom_imminent"))][:1]
    (growth,) = [g for g in host.watch.growths(host.now) if g.place.target == "decode-0"]
    grown_for = (host.now - START) / 3600 - 1.0
    left = (limit - leaking((host.now - START) / 3600)) / (limit - 41_000 * MB)
    assert grown_for <= 1.0
    assert left > 0.5
    assert "VLLM::EngineCore_DP0 of decode-0" in said
    assert all("prefill" not in text.split(";")[0] for text in host.said().values())
    assert growth.limit_bytes == pytest.approx(limit, rel=1e-6)


def test_a_restart_keeps_the_place_and_ends_the_alarm() -> None:
    host = Host()
    slow = lambda hours: 6_000 * MB + 100 * MB * hours  # noqa: E731
    host.run(12 * 30, lambda h: (process(41, slow(h)),))
    assert any(key.startswith("memory_leak") for key in host.said())
    restarted = host.now
    host.run(3, lambda h: (process(77, 6_000 * MB, started=restarted),))
    assert host.said() == {}
    assert len(list(host.watch.growths(host.now))) == 1


def test_a_steady_process_is_never_spoken_of() -> None:
    host = Host()
    host.run(12 * 30, lambda h: (process(41, 6_000 * MB + (int(h * 12) % 5) * MB),))
    assert host.said() == {}
    (growth,) = host.watch.growths(host.now)
    assert memory_state(growth, 168.0).trend == "steady"


def test_growth_that_the_container_does_not_show_never_pages() -> None:
    host = Host()
    grow = lambda hours: 6_000 * MB + 400 * MB * hours  # noqa: E731
    host.run(12 * 30, lambda h: (process(41, grow(h)),), limited(lambda h: 6_000.0 * MB, 20_000 * MB))
    found = host.said()
    assert any(key.startswith("memory_leak") and key.endswith("warning") for key in found)
    assert not any(key.endswith("critical") and key.startswith("memory_leak") for key in found)


def test_siblings_are_told_apart_by_engine_and_compared() -> None:
    host = Host()
    grow = lambda hours: 6_000 * MB + 200 * MB * hours  # noqa: E731
    host.run(
        12 * 30,
        lambda h: (
            process(41, grow(h)),
            process(42, 6_000 * MB, "VLLM::EngineCore_DP1", "1"),
        ),
    )
    (text,) = [text for key, text in host.said().items() if key.startswith("memory_leak")]
    assert "; its 1 sibling does not grow; " in text


def test_siblings_of_the_other_pool_are_counted_apart() -> None:
    host = Host(("decode-0", "prefill-0"))
    grow = lambda hours: 6_000 * MB + 200 * MB * hours  # noqa: E731
    for _ in range(12 * 30):
        host.run(
            1,
            lambda h: tuple(process(41 + rank, grow(h), f"VLLM::EngineCore_DP{rank}", str(rank)) for rank in (0, 1, 2)),
            every=0.0,
        )
        host.run(
            1,
            lambda h: tuple(process(51 + n, 5_000 * MB, f"VLLM::EngineCore_DP{n}", str(n)) for n in (0, 1)),
            target="prefill-0",
        )
    said = [text for key, text in host.said().items() if key.startswith("memory_leak")]
    assert len(said) == 3
    assert "; all 2 siblings grow too, none of 2 others of its kind in the prefill pool grows; " in said[0]


def test_without_visible_processes_the_container_stands_in() -> None:
    host = Host()
    host.run(3, lambda h: (), lambda h: CgroupSample(limit_bytes=10 * MB, anon_bytes=MB, file_bytes=0, shmem_bytes=0))
    (growth,) = host.watch.growths(host.now)
    assert memory_state(growth, 168.0).measure == "cgroup_anon"


def test_trends_survive_a_restart_of_pdwatch() -> None:
    host, grow = Host(), lambda hours: 6_000 * MB + 100 * MB * hours
    host.run(12 * 30, lambda h: (process(41, grow(h)),))
    again = Host()
    again.now = host.now
    again.watch.restore(dict(host.watch.saved()))
    again.run(1, lambda h: (process(41, grow(h)),))
    assert any(key.startswith("memory_leak") for key in again.said())


def test_growth_per_step_is_told_from_growth_per_hour() -> None:
    following, level, steps = Following(TrendSettings()), 0.0, 0.0
    for slot in range(60):
        work = 1000.0 if slot % 3 else 100.0
        steps += work
        level += 256 * 1024 * work
        following.add(300.0 * slot, level, Counts(300.0 * slot, steps, slot, 50.0 * slot))
    followed = following.over(0.0)
    assert followed.best == "step"
    assert followed.bytes_per["step"] == pytest.approx(256 * 1024, rel=0.02)


def test_growth_that_stops_with_traffic_is_said_and_growth_that_does_not_too() -> None:
    for stops in (True, False):
        following, level, steps = Following(TrendSettings()), 0.0, 0.0
        for slot in range(40):
            busy = slot < 25
            steps += 100.0 if busy else 0.0
            level += 1.0 * MB if busy or not stops else 0.0
            following.add(300.0 * slot, level, Counts(300.0 * slot, steps, steps, steps))
        assert following.over(0.0).stops_without_traffic is stops


def test_what_a_closer_look_found_is_said_while_that_process_lives() -> None:
    host = Host()
    grow = lambda hours: 6_000 * MB + 200 * MB * hours  # noqa: E731
    host.run(12 * 30, lambda h: (process(41, grow(h)),))
    host.watch.looked_into(41, START, "in 29.0 h its mappings changed by heap +5800 MiB")
    (text,) = [text for key, text in host.said().items() if key.startswith("memory_leak")]
    assert "; in 29.0 h its mappings changed by heap +5800 MiB; " in text
    restarted = host.now
    host.run(1, lambda h: (process(41, 6_000 * MB, started=restarted),))
    (growth,) = host.watch.growths(host.now)
    assert growth.closer_look == ""


def test_growth_per_step_is_right_while_the_load_still_rises() -> None:
    following, level, steps = Following(TrendSettings()), 0.0, 0.0
    for reading in range(400):  # one a minute; the load triples
        work = 10.0 + reading / 20
        following.add(60.0 * reading, level, Counts(60.0 * reading, steps, steps / 30, 2 * steps))
        steps += work
        level += 256 * 1024 * work
    assert following.over(0.0).bytes_per["step"] == pytest.approx(256 * 1024, rel=1e-9)


def test_a_page_that_is_late_is_not_taken_for_a_pause_in_the_traffic() -> None:
    following, level, steps, page, counted = Following(TrendSettings()), 0.0, 0.0, 0.0, 0.0
    for slot in range(60):  # the page comes only every third slot, though the engine never rests
        steps += 100.0
        level += 1.0 * MB
        if slot % 3 == 0:
            page, counted = 300.0 * slot, steps
        following.add(300.0 * slot + 1.0, level, Counts(page, counted, counted, counted))
    assert following.over(0.0).stops_without_traffic is None
