"""Alertmanager: how posts are made (against a receiver on loopback), and what the real one makes of them."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from agent.config import Alertmanager, Auth
from agent.outputs.delivery.alertmanager import AlertmanagerSender, postable
from agent.outputs.delivery.backoff import Backoff
from agent.outputs.delivery.figures import ReceiverFigures
from agent.outputs.delivery.times import rfc3339
from agent.verdicts.alert import Alert
from tests.outputs.delivery.pagers import Pager, T, alert, free_port, pager

FIRING, OVER = alert(), alert(ended=T + 600)
PATIENCE_SECONDS = 20.0


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def sender(url: str, session: aiohttp.ClientSession, auth: Auth | None = None) -> AlertmanagerSender:
    configured = Alertmanager(url=url, auth=auth or Auth())
    return AlertmanagerSender(configured, session, ReceiverFigures("alertmanager"), Backoff(random.Random(1)))


async def test_a_firing_alert_is_sent_at_once_and_again_each_minute_with_its_end_ahead(
    session: aiohttp.ClientSession,
) -> None:
    async with pager() as manager:
        sending = sender(manager.url + "/prefix/", session, Auth(bearer_token="t0ken"))
        for second in range(121):
            await sending.turn([FIRING], T + second, float(second))
        assert manager.paths == ["/prefix/api/v2/alerts"] * 3
        assert manager.headers[0]["Authorization"] == "Bearer t0ken"
        assert [body[0]["endsAt"] for body in manager.bodies] == [rfc3339(T + 240 + after) for after in (0, 60, 120)]
        assert {body[0]["startsAt"] for body in manager.bodies} == {rfc3339(T)}


async def test_a_query_of_the_base_url_stays_behind_the_path(session: aiohttp.ClientSession) -> None:
    async with pager() as manager:
        await sender(manager.url + "/prefix/?tenant=a", session).turn([FIRING], T, 0.0)
        assert manager.paths == ["/prefix/api/v2/alerts?tenant=a"]


async def test_an_end_is_sent_at_once_with_its_own_time_and_again(session: aiohttp.ClientSession) -> None:
    async with pager() as manager:
        sending = sender(manager.url, session)
        await sending.turn([FIRING], T, 0.0)
        for second in range(1, 63):
            await sending.turn([OVER], T + 600 + second, float(second))
        assert [body[0]["endsAt"] for body in manager.bodies[1:]] == [rfc3339(T + 600)] * 2
        await sending.turn([], T + 1600, 1600.0)
        assert len(manager.bodies) == 3


async def test_an_outage_loses_nothing_and_is_not_stormed(session: aiohttp.ClientSession) -> None:
    async with pager(*[503] * 8) as manager:
        sending = sender(manager.url, session)
        for second in range(300):
            await sending.turn([FIRING] if second < 200 else [OVER], T + second, float(second))
        assert 8 < len(manager.posts) < 20
        assert any(body[0]["endsAt"] == rfc3339(T + 600) for body in manager.bodies)


async def test_what_is_refused_waits_for_the_next_minute_and_holds_nobody_up(session: aiohttp.ClientSession) -> None:
    many = [alert(f"objective-{number}") for number in range(100)]
    async with pager(400) as manager:
        sending = sender(manager.url, session)
        for second in range(59):
            await sending.turn(many, T + second, float(second))
        assert [len(body) for body in manager.posts] == [64, 36]
        await sending.turn(many, T + 60, 60.0)
        assert len(manager.bodies) == 3


def test_a_post_has_texts_only_and_never_ends_before_it_begins() -> None:
    body = postable(Alert(FIRING.labels, T, FIRING.annotations, T - 5), T)
    assert body["endsAt"] == body["startsAt"]
    assert all(isinstance(value, str) for value in [*body["labels"].values(), *body["annotations"].values()])


# -- the real one --------------------------------------------------------------------------------------------------


@dataclass
class Manager:
    """A running Alertmanager, and the receiver that it notifies."""

    url: str
    notified: Pager

    def query(self) -> list[dict[str, object]]:
        """What `amtool` sees active."""
        command = ["amtool", "--alertmanager.url", self.url, "alert", "query", "-o", "json"]
        found: list[dict[str, object]] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return found

    def statuses(self) -> list[str]:
        """Of every notification so far."""
        return [body["status"] for body in self.notified.bodies]


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for what another process does; fails when it does not come."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110 - another process has no event to wait for
            await asyncio.sleep(0.05)


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url + "/-/ready") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def alertmanager(tmp_path: Path, session: aiohttp.ClientSession, port: int) -> AsyncIterator[Manager]:
    """One that groups nothing and notifies within a second."""
    program = shutil.which("prometheus-alertmanager")
    if program is None or shutil.which("amtool") is None:
        pytest.skip("needs Debian's package prometheus-alertmanager (prometheus-alertmanager and amtool)")
    async with pager() as notified:
        config = tmp_path / "alertmanager.yml"
        config.write_text(
            "route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\n"
            f"receivers: [{{name: hook, webhook_configs: [{{url: '{notified.url}/', send_resolved: true}}]}}]\n"
        )
        await asyncio.to_thread(
            subprocess.run, ["amtool", "check-config", str(config)], check=True, capture_output=True
        )
        url = f"http://127.0.0.1:{port}"
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={config}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await answers(session, url):  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.05)
            yield Manager(url, notified)
        finally:
            process.terminate()
            await process.wait()


def lately(now: float, ended: float | None = None) -> Alert:
    """An alert of now: the real one looks at its own clock."""
    return alert(began=now - 30, ended=ended)


async def test_the_real_one_makes_one_page_and_one_end_of_what_two_replicas_send(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    async with alertmanager(tmp_path, session, free_port()) as manager:
        now = time.time()
        replicas = [sender(manager.url, session), sender(manager.url, session)]
        for shift, replica in enumerate(replicas):
            await replica.turn([lately(now + shift)], now, 0.0)
        await until(lambda: manager.statuses() == ["firing"])
        (seen,) = await asyncio.to_thread(manager.query)
        assert seen["labels"] == FIRING.labels
        # Sent again, by a replica that was started anew, it is still the same page.
        await sender(manager.url, session).turn([lately(now)], now, 0.0)
        for replica in replicas:
            await replica.turn([lately(now, ended=now)], now, 1.0)
        await until(lambda: "resolved" in manager.statuses())
        for replica in replicas:
            await replica.turn([lately(now, ended=now)], now + 61, 62.0)
        other = alert("ttft", began=now)
        await replicas[0].turn([other], now, 63.0)
        await until(lambda: len(manager.statuses()) == 3)
        assert manager.statuses() == ["firing", "resolved", "firing"]
        texts = manager.notified.bodies[0]["commonAnnotations"]
        assert texts["description"] == FIRING.annotations["description"]


async def test_the_real_one_being_down_for_a_while_loses_nothing(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    port = free_port()
    sending = sender(f"http://127.0.0.1:{port}", session)
    for second in range(120):
        await sending.turn([lately(time.time())], time.time(), float(second))
    async with alertmanager(tmp_path, session, port) as manager:
        await sending.turn([lately(time.time())], time.time(), 200.0)
        await until(lambda: manager.statuses() == ["firing"])
