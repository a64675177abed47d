"""The exported files as plain values, and the tools that read them. In: nothing. Out: configurations, files, rules."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import Config, Objective, Pool, Target, load_config
from agent.config.pools import PoolRole
from agent.export.rules.files import alert_files

REPOSITORY = Path(__file__).resolve().parents[3]
COMMITTED = REPOSITORY / "alerts"
RULE_FILES = ("vllm-rules.yml", "pdwatch-rules.yml")
TEST_FILES = ("vllm-rules_test.yml", "vllm-rules-days_test.yml", "pdwatch-rules_test.yml")

Json = dict[str, Any]


@cache
def story() -> Config:
    """The deployment of the committed files."""
    return load_config(COMMITTED / "pdwatch.yaml", {})


def objectives(*, concurrent: bool = False) -> Config:
    """One objective of every kind, in a deployment with labels and links of its own."""
    config = story()
    several = (
        Objective(
            name="ttft-95", indicator="ttft", scope="system", target=5.0, statistic="share", objective_ratio=0.95
        ),
        Objective(
            name="ttft-p99", indicator="ttft", scope="prefill", target=2.0, statistic="p99", window_seconds=900.0
        ),
        Objective(name="tpot-p95", indicator="tpot", scope="decode", target=0.02, statistic="p95"),
        Objective(
            name="tpot-90",
            indicator="tpot",
            scope="decode",
            target=0.02,
            statistic="share",
            objective_ratio=0.9,
            certainty="likely",
        ),
        Objective(name="all", indicator="e2e", scope="system", target=60.0, statistic="share", objective_ratio=1.0),
        Objective(name="late", indicator="kv_transfer", scope="decode", target=30.0, statistic="p90"),
        Objective(name="tokens", indicator="tpot_token", scope="decode", target=0.02),
        Objective(name="steps", indicator="itl", scope="decode", target=0.05),
        Objective(name="prefill", indicator="prefill", scope="system", target=2.0),
        Objective(name="queue", indicator="queue", scope="system", target=1.0),
        Objective(name="errors", indicator="errors", scope="system", target=0.02, window_seconds=900.0),
        Objective(name="errors-d", indicator="errors", scope="decode", target=0.02),
        Objective(name="length", indicator="acceptance_length", scope="decode", target=1.8, window_seconds=900.0),
        Objective(name="nonsense", indicator="tpot", scope="prefill", target=0.02),
    )
    alerting = replace(config.alerting, labels=(("cluster", 'a "b" \\c'),))
    links = replace(config.links, runbooks="https://wiki.example/runbooks", dashboards="https://grafana.example")
    return replace(
        config,
        deployment="glm-test",
        objectives=(*config.objectives, *several),
        alerting=alerting,
        links=links,
        dispatch="concurrent" if concurrent else "serial",
    )


def together() -> Config:
    """Servers that do both."""
    pool = Pool(name="all.in-one", role="both", targets=(Target("one", "http://10.1.0.1:8000/metrics"),))
    return replace(
        story(), pools=(pool,), objectives=(Objective(indicator="ttft", scope="system", target=1.0),), prefix="kserve_"
    )


def several_pools() -> Config:
    """Two decode pools beside one prefill pool, one target each."""
    roles: tuple[tuple[str, PoolRole], ...] = (("p", "prefill"), ("d.a", "decode"), ("d.b", "decode"))
    pools = tuple(
        Pool(name=name, role=role, targets=(Target(f"{name}-0", f"https://{name}.example/metrics"),))
        for name, role in roles
    )
    return replace(
        story(), pools=pools, objectives=(Objective(indicator="ttft", scope="system", target=2.5),), prefix=""
    )


CONFIGS: dict[str, Callable[[], Config]] = {
    "story": story,
    "objectives": objectives,
    "concurrent": lambda: objectives(concurrent=True),
    "together": together,
    "several pools": several_pools,
}


@cache
def files(name: str = "story") -> dict[str, str]:
    """File name -> text, of one of `CONFIGS`."""
    return dict(alert_files(CONFIGS[name]()))


@cache
def parsed(text: str) -> Any:
    """A YAML text as a plain value, by the fast reader where there is one."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def rules(text: str) -> Iterator[Json]:
    """Every rule of a rule file."""
    for group in parsed(text)["groups"]:
        yield from group["rules"]


def alerts(text: str) -> list[Json]:
    """Every alerting rule of a rule file."""
    return [rule for rule in rules(text) if "alert" in rule]


def tool(name: str) -> str:
    """Where a program is; the test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def written(folder: Path, made: dict[str, str]) -> Path:
    """The files in a folder."""
    for file, text in made.items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def ran(arguments: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """A tool's run, with its output."""
    return subprocess.run(list(arguments), cwd=folder, capture_output=True, text=True)
