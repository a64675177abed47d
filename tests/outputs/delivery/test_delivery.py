"""All ways together: each by itself, none keeps another waiting, nothing on the way out; and the marked test page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import aiohttp
import pytest

from agent.config import Alerting, Alertmanager, Config, Mute, PagerDuty, Slack, Webhook, config_from_names
from agent.outputs.delivery import Delivery
from agent.outputs.delivery.test_page import send_test
from agent.sources.clock import Clock
from agent.verdicts.alert import Alert
from tests.outputs.delivery.pagers import Pager, T, alert, free_port, pager


class FastClock:
    """Time that passes a thousand times as fast while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall(self) -> float:
        return T + self.now

    def steady(self) -> float:
        return self.now

    async def sleep_until(self, steady: float) -> None:
        await asyncio.sleep(max(0.0, steady - self.now) / 1000)
        self.now = max(self.now, steady)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - what is waited for is a list that fills
            await asyncio.sleep(0.005)


def config_of(
    state_dir: Path | None,
    manager: str = "",
    hook: str = "",
    duty: str = "",
    channel: str = "",
    mute: tuple[Mute, ...] = (),
    path: Literal["direct", "rules"] = "direct",
) -> Config:
    alerting = Alerting(
        path=path,
        alertmanagers=(Alertmanager(url=manager),) if manager else (),
        webhooks=(Webhook(url=hook),) if hook else (),
        pagerduty=PagerDuty(routing_key="k" * 32, url=duty) if duty else None,
        slack=Slack(url=channel) if channel else None,
        mute=mute,
    )
    found = config_from_names({"prefill-0", "decode-0"})
    return replace(found, deployment="glm", alerting=alerting, state_dir=None if state_dir is None else str(state_dir))


@asynccontextmanager
async def delivering(config: Config, alerts: Sequence[Alert]) -> AsyncIterator[Delivery]:
    """Delivers until the test leaves; fails on any defect."""
    defects: list[tuple[str, Exception]] = []
    clock: Clock = FastClock()
    async with aiohttp.ClientSession() as session:
        delivery = Delivery(config, session, clock, lambda: alerts, lambda *defect: defects.append(defect))
        task = asyncio.create_task(delivery.run())
        try:
            yield delivery
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert defects == []


async def test_every_way_gets_the_page_though_another_hangs(tmp_path: Path) -> None:
    async with pager() as manager, pager() as hook, pager(0) as duty, pager() as channel:
        config = config_of(tmp_path, manager.url, hook.url, duty.url, channel.url)
        async with delivering(config, [alert()]) as delivery:
            await until(lambda: bool(manager.bodies and hook.bodies and channel.bodies and duty.posts))
            assert duty.bodies == []
            assert [figures.name for figures in delivery.figures.receivers] == [
                "alertmanager",
                "webhook",
                "pagerduty",
                "slack",
            ]
            assert delivery.figures.holds_lease()


async def test_nothing_is_sent_on_the_way_out_and_nothing_again_after_it(tmp_path: Path) -> None:
    async with pager() as manager, pager() as hook:
        config = config_of(tmp_path, manager.url, hook.url)
        alerts = [alert()]
        async with delivering(config, alerts):
            await until(lambda: bool(manager.bodies and hook.bodies))
        assert {body["status"] for body in hook.bodies} == {"firing"}
        assert all(posted["endsAt"] > posted["startsAt"] for body in manager.bodies for posted in body)
        alerts[0] = alert(ended=T + 5)
        async with delivering(config, alerts):
            await until(lambda: len(hook.bodies) == 2)
        assert [body["status"] for body in hook.bodies] == ["firing", "resolved"]


async def test_two_replicas_on_one_folder_page_once(tmp_path: Path) -> None:
    async with pager() as hook:
        config = config_of(tmp_path, hook=hook.url)
        alerts = [alert()]
        async with delivering(config, alerts) as one, delivering(config, alerts) as other:
            await until(lambda: bool(hook.bodies) and one.figures.holds_lease() != other.figures.holds_lease())
            alerts[0] = alert(ended=T + 5)
            await until(lambda: len(hook.bodies) == 2)
        assert [body["status"] for body in hook.bodies] == ["firing", "resolved"]


async def test_what_prometheus_pages_is_not_sent_by_pdwatch_too(tmp_path: Path) -> None:
    async with pager() as hook, aiohttp.ClientSession() as session:
        config = config_of(tmp_path, hook=hook.url, path="rules")
        delivery = Delivery(config, session, FastClock(), lambda: [alert()], lambda *_: None)
        assert not delivery.is_needed
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery.run(), 0.05)
        assert hook.posts == []


async def test_a_muted_alert_is_not_sent_to_an_alertmanager_either(tmp_path: Path) -> None:
    window = Mute(from_seconds=T - 60, to_seconds=T + 86400, labels=(("objective", "tpot"),))
    async with pager() as manager:
        config = config_of(tmp_path, manager.url, mute=(window,))
        async with delivering(config, [alert("tpot"), alert("ttft")]):
            await until(lambda: bool(manager.bodies))
        assert {posted["labels"]["objective"] for body in manager.bodies for posted in body} == {"ttft"}


async def test_the_test_page_is_marked_and_says_what_each_receiver_answered(tmp_path: Path) -> None:
    def marked(received: Pager) -> bool:
        return bool(received.bodies) and all("TEST" in str(body) or "resolve" in str(body) for body in received.bodies)

    async with pager() as manager, pager() as hook, pager(403) as duty, pager() as channel:
        config = config_of(tmp_path, manager.url, hook.url, duty.url, channel.url)
        results = await asyncio.to_thread(send_test, config, lambda: T)
        assert [(result.receiver.split()[0], result.accepted) for result in results] == [
            ("alertmanager", True),
            ("webhook", True),
            ("pagerduty", False),
            ("slack", True),
        ]
        assert results[2].text == "status 403: go away"
        assert all(marked(received) for received in (manager, hook, channel))
        assert [body["status"] for body in hook.bodies] == ["firing", "resolved"]
        assert manager.bodies[0][0]["labels"]["alertname"] == "PDWatchTest"
    gone = config_of(tmp_path, f"http://127.0.0.1:{free_port()}")
    (result,) = await asyncio.to_thread(send_test, gone, lambda: T)
    assert not result.accepted


async def test_who_slept_and_lost_the_lease_writes_over_nobodys_ledger(tmp_path: Path) -> None:
    config = config_of(tmp_path, hook="http://127.0.0.1:9/")
    clock = FastClock()
    async with aiohttp.ClientSession() as session:
        sleeper, other = (Delivery(config, session, clock, list, lambda *_: None) for _ in range(2))
        await sleeper._beat()
        await sleeper._save()
        other.lease.renew(clock.now)
        clock.now += 60.0
        await sleeper._save()
        assert sleeper.ledger.text() in (tmp_path / "delivery.json").read_text(), "nobody has taken it: it is written"
        assert other.lease.renew(clock.now)
        (tmp_path / "delivery.json").write_text("the other's")
        await sleeper._save()
        assert (tmp_path / "delivery.json").read_text() == "the other's"
        for each in (sleeper, other):
            each.lease.release()
