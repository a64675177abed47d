"""The example configurations, as they are, each started over a simulated fleet of its topology."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cli import main
from agent.config import Config, load_config
from agent.outputs.live import Live
from agent.runtime import Stop, watch_world
from agent.state import State
from tests.demo.watched import START
from tests.examples.fleets import Served, glm, qwen, served
from tests.sources.loopback import TurnedClock

GLM = Path("examples") / "glm-5.2-b300"
QWEN = Path("examples") / "qwen3.8-gb300"
CONFIGS = (GLM / "pdwatch.yaml", GLM / "sidecar.yaml", QWEN / "pdwatch.yaml")

PAST_SECONDS = 120.0
MOST_TURNS = 600
"""Seconds of the fleet's time before a start that did not succeed is a failure; about a hundred are usual."""
DECIDED = ("met", "breached")
SETTINGS = {"PDWATCH_SCRAPE_INTERVAL": "20s", "PDWATCH_LISTEN": "127.0.0.1:0"}


async def started(config: Config, wanted: Mapping[str, int], clock: TurnedClock) -> State:
    """The state once every target has its engines and every objective is decided, or after all patience.

    Time goes on by a second whenever the event loop has got round, so a slow machine changes nothing.
    """
    stop = Stop()
    alive: list[Live] = []

    async def turn() -> State:
        for second in range(MOST_TURNS):
            clock.turn(1.0)
            await asyncio.sleep(0.005)
            if alive and second % 10 == 9:
                state = alive[0].plain_state()
                decided = sum(verdict.verdict in DECIDED for verdict in state.verdicts)
                if engines(state) == wanted and decided == len(config.objectives):
                    break
        stop.want(0)
        return alive[0].plain_state()

    turning = asyncio.create_task(turn())
    await watch_world(config, stop, out=io.StringIO(), clock=clock, on_start=alive.append)
    return await turning


def engines(state: State) -> dict[str, int]:
    """Engines of every target that is up."""
    return {
        name: len(target.engines) for pool in state.pools.values() for name, target in pool.targets.items() if target.up
    }


def verdicts(state: State) -> dict[str, str]:
    return {verdict.objective: verdict.verdict for verdict in state.verdicts}


def example(path: Path, environ: Mapping[str, str]) -> Config:
    """An example as it is, but for the pdwatch beside each server: a test may not ask anybody at a fixed port."""
    config = load_config(path, environ)
    assert {pool.sidecar_port for pool in config.pools} == {9838}
    return replace(config, pools=tuple(replace(pool, sidecar_port=None) for pool in config.pools))


def targets_file(fleet: Served) -> str:
    """As the Slurm job writes it."""
    groups = [
        {"targets": [address], "labels": {"role": name.partition("-")[0], "pdwatch_target": name}}
        for name, address in fleet.addresses.items()
    ]
    return json.dumps(groups)


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_the_check_finds_no_error_and_nothing_to_warn_of(
    path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-c", str(repository / path), "--offline"]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


async def test_glm_comes_up_and_is_judged(repository: Path, tmp_path: Path) -> None:
    clock = TurnedClock(wall=START)
    async with served(glm(), clock, PAST_SECONDS) as fleet:
        environ = {f"GLM_{name.upper().replace('-', '_')}": address for name, address in fleet.addresses.items()}
        config = example(repository / GLM / "pdwatch.yaml", {**SETTINGS, **environ, "PDWATCH_STATE_DIR": str(tmp_path)})
        wanted = {"prefill-0": 4, "prefill-1": 4, "prefill-2": 4, "prefill-3": 4, "decode-0": 8}
        state = await started(config, wanted, clock)
    assert engines(state) == wanted
    assert verdicts(state) == {"ttft": "met", "tpot": "met", "errors": "met", "acceptance": "met"}
    assert {
        pool: len(facts.speculation.per_position or ()) for pool, facts in state.pools.items() if facts.speculation
    } == {
        "prefill": 1,
        "decode": 3,
    }


async def test_qwen_is_found_in_the_jobs_file_comes_up_and_is_judged(repository: Path, tmp_path: Path) -> None:
    clock = TurnedClock(wall=START)
    async with served(qwen(), clock, PAST_SECONDS) as fleet:
        (tmp_path / "targets.json").write_text(targets_file(fleet), encoding="utf-8")
        environ = {"WATCH_DIR": str(tmp_path), "DYNAMO_FRONTEND": fleet.router, **SETTINGS}
        config = example(repository / QWEN / "pdwatch.yaml", environ)
        wanted = {f"prefill-{i}": 4 for i in range(10)} | {f"decode-{i}": 4 for i in range(8)}
        state = await started(config, wanted, clock)
    assert engines(state) == wanted
    assert set(verdicts(state)) == {"ttft", "ttft-95", "tpot", "errors"}
    assert {name: verdict for name, verdict in verdicts(state).items() if verdict not in DECIDED} == {}
    assert state.system.ttft.source == "router"
