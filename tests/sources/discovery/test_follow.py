"""Sources over time and pools out of them: the last good list stands, whatever comes in between."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Config, Discovery, FileSd, HttpSd, Pool, Router, Target
from agent.config.discovery import Source
from agent.outputs.discovered import Discovered
from agent.sources.discovery.assign import MOST_TARGETS_OF_A_POOL, assigned
from agent.sources.discovery.follow import DiscoveryFollower
from agent.sources.discovery.found import DiscoveryError, Found, Listing, found
from tests.sources.loopback import TurnedClock

FILES = FileSd(("/targets/*.json",))
Answer = Listing | DiscoveryError


def listing(*names: str, role: str = "decode") -> Listing:
    """Targets by name, each on a host of that name."""
    return Listing(tuple(found(f"{name}:8000", {"role": role}, name) for name in sorted(names)))


def pool(name: str, source: FileSd | HttpSd = FILES, targets: tuple[Target, ...] = (), **labels: str) -> Pool:
    given = {"file_sd": source} if isinstance(source, FileSd) else {"http_sd": source}
    discovery = Discovery(labels=tuple(labels.items()), **given)
    return Pool(name=name, role="decode", targets=targets, discovery=discovery)


def names(config: Config, pool: str = "decode") -> list[str]:
    return [target.name for target in (config.pool(pool) or config.pools[0]).targets]


class World:
    """A follower whose sources answer what a test says."""

    def __init__(self, config: Config) -> None:
        self.clock = TurnedClock()
        self.answers: dict[Source, Answer] = {}
        self.changes: list[Config] = []
        self.follower = DiscoveryFollower(config, self.changes.append, self.clock, lambda source, *_: self.look(source))

    def look(self, source: Source) -> Callable[[], asyncio.Future[Listing]]:
        async def answer() -> Listing:
            said = self.answers[source]
            if isinstance(said, DiscoveryError):
                raise said
            return said

        return lambda: asyncio.ensure_future(answer())

    async def hears(self, answer: Answer, source: Source = FILES) -> None:
        self.answers[source] = answer
        await self.follower.once()

    def problems(self) -> list[tuple[str, str | None]]:
        discovered = Discovered(self.follower)
        return [(problem.code, problem.pool) for problem in discovered.problems(self.clock.wall())]


answers = st.one_of(
    st.just(None), st.lists(st.sampled_from("abcdef"), unique=True, max_size=6).map(lambda names: listing(*names))
)


@given(st.lists(answers, max_size=12))
def test_any_sequence_of_lists_and_failures_ends_in_exactly_the_last_good_list(said: list[Listing | None]) -> None:
    async def play() -> None:
        world = World(Config(pools=(pool("decode"),)))
        good: list[str] = []
        for answer in said:
            await world.hears(answer or DiscoveryError("refused", "gone"))
            good = [target.name for target in answer.targets] if answer else good
            assert names(world.follower.current) == good
        assert (world.changes[-1] if world.changes else world.follower.current) == world.follower.current

    asyncio.run(play())


async def test_a_failure_is_counted_and_shown_with_the_list_that_stands() -> None:
    world = World(Config(pools=(pool("decode"),)))
    await world.hears(listing("a", "b"))
    assert world.problems() == []
    world.clock.turn(60)
    await world.hears(DiscoveryError("not_json", "x.json: not valid JSON"))
    (problem,) = Discovered(world.follower).problems(world.clock.wall())
    assert (problem.code, problem.pool, problem.severity) == ("discovery_failed", "decode", "warning")
    assert "x.json: not valid JSON; the last list stands (2 targets, 60 s old)" in problem.text
    assert len(world.changes) == 1
    await world.hears(listing("a", "b"))
    assert world.problems() == []
    assert world.follower.work[0].failures == 1


async def test_a_pool_that_loses_its_last_target_is_said() -> None:
    world = World(Config(pools=(pool("decode"),)))
    assert world.problems() == [], "nobody has answered yet"
    await world.hears(DiscoveryError("refused", "gone"))
    assert world.problems() == [("discovery_failed", "decode"), ("pool_empty", "decode")]
    await world.hears(listing("a"))
    assert world.problems() == []
    await world.hears(listing())
    assert world.problems() == [("pool_empty", "decode")]
    assert names(world.changes[-1]) == []


async def test_one_source_serves_several_pools_by_label() -> None:
    router = Router(kind="dynamo", discovery=Discovery(file_sd=FILES, labels=(("role", "router"),), path="/m"))
    world = World(Config(pools=(pool("prefill", role="prefill"), pool("decode", role="decode")), router=router))
    both = (*listing("p-0", role="prefill").targets, *listing("d-0", "d-1").targets)
    await world.hears(Listing((*both, *listing("r-0", role="router").targets, *listing("x", role="other").targets)))
    current = world.follower.current
    assert (names(current, "prefill"), names(current, "decode")) == (["p-0"], ["d-0", "d-1"])
    assert current.router is not None
    assert current.router.targets == (Target("r-0", "http://r-0:8000/m"),)
    assert len(world.follower.work) == 1
    assert dict(world.follower.found) == {"prefill": 1, "decode": 2, "router": 1}


async def test_names_and_addresses_are_taken_once_over_all_pools() -> None:
    listed = (Target("a", "http://a:8000/metrics"), Target("fixed", "http://b:8000/metrics"))
    world = World(Config(pools=(pool("decode", targets=listed), pool("more"))))
    await world.hears(listing("a", "b", "c"))
    current = world.follower.current
    assert names(current) == ["a", "fixed", "c"], "a is the same once more; b has the address of fixed"
    assert names(current, "more") == []
    assert ("decode", "b has the same address as target fixed; it is left out of pool decode") in world.follower.notes


async def test_a_target_with_a_new_address_is_the_same_target() -> None:
    world = World(Config(pools=(pool("decode"),)))
    await world.hears(Listing((Found("decode-0", "10.0.0.1:8000"),)))
    await world.hears(Listing((Found("decode-0", "10.0.0.2:8000", sidecar="9838"),)))
    assert world.follower.current.pools[0].targets == (
        Target("decode-0", "http://10.0.0.2:8000/metrics", "http://10.0.0.2:9838"),
    )


async def test_more_targets_than_a_pool_may_have_change_nothing() -> None:
    world = World(Config(pools=(pool("decode"),)))
    await world.hears(listing("a"))
    await world.hears(listing(*(f"n{n}" for n in range(MOST_TARGETS_OF_A_POOL + 1))))
    assert names(world.follower.current) == ["a"]
    assert "none is taken over" in Discovered(world.follower).problems(0.0)[0].text


async def test_another_configuration_keeps_the_lists_of_sources_that_stay() -> None:
    config = Config(pools=(pool("decode"),))
    world = World(config)
    await world.hears(listing("a", "b"))
    relabelled = replace(config, pools=(pool("decode", role="decode"), pool("spare", role="spare")))
    assert names(world.follower.reconfigure(relabelled)) == ["a", "b"]
    fresh = HttpSd("http://lists/decode")
    moved = world.follower.reconfigure(Config(pools=(pool("decode", fresh),)))
    assert names(moved) == ["a", "b"], "a source that has not answered yet leaves the pool as it was"
    await world.hears(listing("b", "c"), fresh)
    assert names(world.follower.current) == ["b", "c"]


async def test_sources_are_asked_at_their_intervals_until_the_end() -> None:
    web = HttpSd("http://lists/prefill", interval_seconds=60)
    world = World(Config(pools=(pool("decode"), pool("prefill", web))))
    world.answers = {FILES: listing("a"), web: DiscoveryError("refused", "gone")}
    task = asyncio.create_task(world.follower.run())
    for _ in range(4):
        await world.clock.sleeping(2)
        world.clock.turn(5)
    await world.clock.sleeping(2)
    assert [work.rounds for work in world.follower.work] == [5, 1]
    world.follower.reconfigure(Config(pools=(pool("decode"),)))
    world.clock.turn(5)
    await world.clock.sleeping(1)
    assert world.follower.answered
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_same_lists_always_give_the_same_configuration() -> None:
    config = Config(pools=(pool("decode"), pool("other", role="none")))
    one = assigned(config, {FILES: listing("b", "a")})
    again = assigned(config, {FILES: listing("a", "b")}, before=one.config)
    assert one == again
