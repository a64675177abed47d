"""Many targets, each on its own clock: nobody waits for another, nothing is asked twice at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from agent.config import Config, Pool, Router, Scrape, Target
from agent.model import ClockStepObservation, FailureObservation, Observation, PageObservation
from agent.sources.http import PageSource, offset_ratio, targets_of
from tests.sources.loopback import Request, TurnedClock, always, response, serving

INTERVAL = 10.0


def config_of(**urls: str) -> Config:
    targets = tuple(Target(name.replace("_", "-"), url) for name, url in urls.items())
    return Config(pools=(Pool(name="decode", role="decode", targets=targets),), scrape=Scrape(INTERVAL, INTERVAL))


class Running:
    """A page source at work, and what it has emitted."""

    def __init__(self, config: Config, clock: TurnedClock) -> None:
        self.seen: list[Observation] = []
        self.clock = clock
        self.source = PageSource(config, self.seen.append, clock)
        self.targets = len(list(targets_of(config)))

    async def turn(self, seconds: float, step: float = 0.0) -> None:
        """Let time pass, then wait until every target sleeps again."""
        self.clock.turn(seconds, step)
        await self.clock.sleeping(self.targets)

    def pages_of(self, target: str) -> list[PageObservation]:
        return [seen for seen in self.seen if isinstance(seen, PageObservation) and seen.target == target]


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Running]:
    work = Running(config, TurnedClock())
    task = asyncio.create_task(work.source.run())
    await work.clock.sleeping(work.targets)
    try:
        yield work
    finally:
        work.source.stop()
        await asyncio.wait_for(task, 10)


async def test_a_target_is_scraped_once_an_interval_over_one_connection():
    answer = always(response(b"a 1\n", "Content-Type: text/plain"))
    async with serving(answer) as server, running(config_of(decode_0=server.url)) as work:
        for _ in range(4):
            await work.turn(INTERVAL)
    first, *rest = work.pages_of("decode-0")
    assert first.page == "a 1\n"
    assert first.content_type == "text/plain"
    assert first.took_seconds == 0.0  # by the clock that stood still meanwhile
    assert [page.t - first.t for page in rest] == [INTERVAL, 2 * INTERVAL, 3 * INTERVAL]
    assert (server.connections, len(server.requests)) == (1, 4)
    assert work.source.work["decode-0"].pages == 4


async def test_targets_are_spread_over_the_interval_by_their_names():
    async with serving(always(response(b"a 1\n"))) as server:
        urls = {f"decode_{i}": f"{server.url}?{i}" for i in range(8)}
        async with running(config_of(**urls)) as work:
            begin = work.clock.steady_now
            moments = {}
            while (due := work.clock.next_due) is not None and due < begin + INTERVAL:
                await work.turn(due - work.clock.steady_now)
                moments = {seen.target: seen.t for seen in work.seen if isinstance(seen, PageObservation)}
    assert len(set(moments.values())) == 8
    for name, t in moments.items():
        assert t - 1_000_000.0 == pytest.approx(offset_ratio(name) * INTERVAL)


def test_the_place_of_a_target_in_the_interval_is_the_same_everywhere_and_even():
    assert offset_ratio("decode-0") == pytest.approx(0.089384, abs=1e-6)
    ratios = sorted(offset_ratio(f"decode-{i}") for i in range(1000))
    assert all(0 <= ratio < 1 for ratio in ratios)
    assert max(abs(ratio - i / 1000) for i, ratio in enumerate(ratios)) < 0.06


async def test_a_hung_target_is_asked_once_and_delays_nobody():
    release = asyncio.Event()

    async def hang(_: Request, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(response(b"late 1\n"))

    async with (
        serving(hang) as slow,
        serving(always(response(b"a 1\n"))) as quick,
        running(config_of(hung=slow.url, fine=quick.url)) as work,
    ):
        for _ in range(5):
            work.clock.turn(INTERVAL)
            await work.clock.sleeping(1)  # the fine one sleeps again, the hung one is still asking
        assert len(work.pages_of("fine")) == 5
        assert work.pages_of("hung") == []
        assert (slow.most_at_once, len(slow.requests)) == (1, 1)
        release.set()
        await work.clock.sleeping(2)
        assert len(work.pages_of("hung")) == 1
        assert work.source.work["hung"].skipped == 4
        assert work.source.work["fine"].skipped == 0
        await work.turn(INTERVAL)
        assert len(work.pages_of("hung")) == 2  # back in step, and nothing was queued


async def test_a_failure_is_one_word_and_the_next_scrape_comes_all_the_same():
    answers = [response(b"", status="503 Service Unavailable"), response(b"a 1\n")]

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    async with serving(answer) as server, running(config_of(decode_0=server.url)) as work:
        await work.turn(INTERVAL)
        await work.turn(INTERVAL)
    failure, page = work.seen
    assert isinstance(failure, FailureObservation)
    assert (failure.target, failure.error) == ("decode-0", "http_503")
    assert failure.text == "status 503 Service Unavailable"
    assert isinstance(page, PageObservation)
    assert page.t == failure.t + INTERVAL
    assert work.source.work["decode-0"].failures == 1


async def test_a_clock_that_was_set_is_told_before_the_next_page_and_scrapes_keep_their_pace():
    async with serving(always(response(b"a 1\n"))) as server, running(config_of(decode_0=server.url)) as work:
        await work.turn(INTERVAL)
        await work.turn(INTERVAL, step=-3600.0)
        await work.turn(INTERVAL, step=1.5)  # slewing, not a step
        await work.turn(INTERVAL, step=3600.0)
    kinds = [type(seen) for seen in work.seen]
    step, page = ClockStepObservation, PageObservation
    assert kinds == [page, step, page, page, step, page]
    steps = [seen.step_seconds for seen in work.seen if isinstance(seen, ClockStepObservation)]
    assert steps == [-3600.0, 3600.0]
    assert work.seen[1].t == work.seen[2].t


async def test_the_router_is_scraped_too_and_targets_without_address_are_not():
    config = Config(
        pools=(Pool(name="p", role="prefill", targets=(Target("prefill-0"), Target("prefill-1", "http://p/metrics"))),),
        router=Router(kind="dynamo", targets=(Target("router-0", "http://r/metrics"),)),
    )
    assert [target.name for target, _ in targets_of(config)] == ["prefill-1", "router-0"]


async def test_stopping_gives_up_what_is_on_its_way():
    asked = asyncio.Event()

    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with serving(hang) as server, running(config_of(decode_0=server.url)) as work:
        work.clock.turn(INTERVAL)
        await asked.wait()
    assert work.seen == []


async def test_an_error_of_the_one_who_takes_the_observations_ends_the_source_which_can_run_again():
    seen: list[Observation] = []

    def refuse_once(observation: Observation) -> None:
        seen.append(observation)
        if len(seen) == 1:
            raise RuntimeError("full")

    async with serving(always(response(b"a 1\n"))) as server:
        clock = TurnedClock()
        source = PageSource(config_of(decode_0=server.url), refuse_once, clock)
        task = asyncio.create_task(source.run())
        await clock.sleeping(1)
        clock.turn(INTERVAL)
        with pytest.raises(ExceptionGroup) as raised:
            await asyncio.wait_for(task, 10)
        assert raised.group_contains(RuntimeError, match="full")
        task = asyncio.create_task(source.run())
        await clock.sleeping(1)
        clock.turn(INTERVAL)
        await clock.sleeping(1)
        source.stop()
        await asyncio.wait_for(task, 10)
    assert len(seen) == 2


async def test_other_targets_are_scraped_and_those_that_are_gone_are_left_alone() -> None:
    pages = always(response(b"up 1\n"))
    async with serving(pages) as first, serving(pages) as second:
        clock, seen = TurnedClock(), list[Observation]()

        def config(**urls: str) -> Config:
            targets = tuple(Target(name, url) for name, url in urls.items())
            return Config(pools=(Pool(name="p", role="both", targets=targets),), scrape=Scrape(interval_seconds=10.0))

        source = PageSource(config(a=first.url, b=first.url + "?b"), seen.append, clock)
        task = asyncio.create_task(source.run())
        await clock.sleeping(2)
        source.retarget(config(a=first.url, b=second.url, c=second.url + "?c"))
        await asyncio.sleep(0.05)
        await clock.sleeping(3)
        clock.turn(10.0)
        await clock.sleeping(3)
        assert {one.target for one in seen if isinstance(one, PageObservation)} == {"a", "b", "c"}
        assert [request.path for request in first.requests] == ["/metrics"]
        assert sorted(request.path for request in second.requests) == ["/metrics", "/metrics?c"]
        source.retarget(config(c=second.url + "?c"))
        await asyncio.sleep(0.05)
        clock.turn(10.0)
        await clock.sleeping(1)
        assert list(source.work) == ["c"]
        assert (len(first.requests), len(second.requests)) == (1, 3)
        source.stop()
        async with asyncio.timeout(10):
            await task
