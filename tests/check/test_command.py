"""`pdwatch check` as it is called: exit codes, offline and against real sockets, and what is asked of a target."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from agent.check.fetch import ask_targets, version_in, version_url, wait_between_pages
from agent.cli import main
from agent.config import Scrape, config_from_flags
from agent.model import FailureObservation, PageObservation
from tests.check.fleet import configured, prefill_page, vllm_page

POOLS = """
deployment: glm
pools:
  prefill: {role: prefill, gpus_per_target: 4, targets: [http://10.0.0.1:8000]}
  decode: {role: decode, gpus_per_target: 8, targets: [http://10.0.0.9:8000]}
"""


class HandClock:
    """Time that stands still but for waiting."""

    def __init__(self) -> None:
        self.now = 1000.0

    def wall(self) -> float:
        return 1_800_000_000.0 + self.now

    def steady(self) -> float:
        return self.now

    async def sleep_until(self, steady: float) -> None:
        self.now = max(self.now, steady)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (POOLS, 0),
        (POOLS + "objectives: [{indicator: tpot, scope: prefill, target: 20ms}]", 1),
        (POOLS.replace("deployment: glm", "alerting: {path: rules}"), 2),
        ("pools: {prefill: {rol: prefill}}", 2),
    ],
    ids=["clean", "warning", "error", "unusable"],
)
def test_the_exit_code_is_that_of_the_worst_finding(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["check", "-c", str(file), "--offline"]) == code
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].startswith(f"{int(code == 2)} error")
    assert said.err == ""


def test_a_file_that_is_not_there_is_one_error_in_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-c", "nowhere.yaml", "--offline", "--json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["code"] == "configuration"
    assert "nowhere.yaml: cannot be read" in found["text"]


def test_a_variable_that_sets_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PDWATCH_SCRAPE_INTERVALL", "5s")
    file = tmp_path / "pdwatch.yaml"
    file.write_text(POOLS, encoding="utf-8")
    assert main(["check", "-c", str(file), "--offline"]) == 1
    assert "did you mean PDWATCH_SCRAPE_INTERVAL?" in capsys.readouterr().out


def test_without_anything_to_check_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    assert "-c FILE" in capsys.readouterr().err


async def served(aiohttp_server, *pages: str, version: object = None):
    """A server that gives these pages one after another, and the last of them again and again."""
    left = list(pages)
    app = web.Application()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=left.pop(0) if len(left) > 1 else left[0])

    async def versions(_: web.Request) -> web.Response:
        return web.json_response(version)

    app.router.add_get("/metrics", metrics)
    if version is not None:
        app.router.add_get("/version", versions)
    return await aiohttp_server(app)


async def test_a_live_fleet_is_checked_over_http(aiohttp_server, capsys: pytest.CaptureFixture[str]) -> None:
    prefill = await served(aiohttp_server, prefill_page(100), prefill_page(110), version={"version": "0.32.0"})
    decode = await served(aiohttp_server, vllm_page(100), vllm_page(110), version={"version": "0.32.0"})
    arguments = ["check", "--prefill", str(prefill.make_url("/")), "--decode", str(decode.make_url("/"))]
    assert await asyncio.to_thread(main, [*arguments, "--for", "1ms", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (target,) = told["pools"]["decode"]["targets"].values()
    assert (target["version"], target["engines"], target["models"]) == ("0.32.0", ["0"], ["demo"])
    arguments[4] = "http://127.0.0.1:9"
    assert await asyncio.to_thread(main, [*arguments, "--for", "1ms"]) == 2
    assert "unreachable: 127.0.0.1:9" in capsys.readouterr().out


async def test_each_target_is_asked_for_two_pages_an_interval_apart_and_its_version_once(aiohttp_server) -> None:
    server = await served(aiohttp_server, vllm_page(100), vllm_page(110))
    config = config_from_flags(decode=[str(server.make_url("/")), "http://127.0.0.1:9"])
    up, down = await ask_targets(config, 5.0, HandClock())
    assert up.version is None
    first, second = up.observations
    assert isinstance(first, PageObservation)
    assert isinstance(second, PageObservation)
    assert second.t - first.t == 5.0
    assert first.page != second.page
    assert all(isinstance(one, FailureObservation) and one.error == "refused" for one in down.observations)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('{"version":"0.32.0"}', "0.32.0"),
        ('{"version":7}', None),
        ("[]", None),
        ("<html>", None),
        ('{"version":""}', None),
    ],
)
def test_only_a_version_is_taken_for_one(text: str, version: str | None) -> None:
    assert version_in(text) == version


def test_the_version_stands_beside_the_metrics_page() -> None:
    assert version_url("http://a:8000/metrics") == "http://a:8000/version"
    assert version_url("https://a/pods/7/metrics?token=x") == "https://a/pods/7/version"


@pytest.mark.parametrize(("interval", "wait"), [(0.5, 2.0), (5.0, 5.0), (60.0, 10.0)])
def test_the_wait_is_an_interval_but_neither_a_moment_nor_a_minute(interval: float, wait: float) -> None:
    assert wait_between_pages(configured({"decode": ["a"]}, scrape=Scrape(interval_seconds=interval))) == wait


def test_a_test_page_is_sent_when_asked_for_and_a_receiver_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(POOLS + "alerting: {alertmanagers: ['http://127.0.0.1:9']}", encoding="utf-8")
    assert main(["check", "-c", str(file), "--offline", "--send-test", "--json"]) == 2
    found = {finding["code"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert found["test_page"]["where"] == ["alertmanager http://127.0.0.1:9"]
    assert main(["check", "-c", str(file), "--offline"]) == 0
