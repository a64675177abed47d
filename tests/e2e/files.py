"""Configurations of all programs. In: addresses. Out: files, made from the exported ones wherever there is one.

Of the examples that `pdwatch export alerts` writes only addresses and waiting times are changed: what is played here is
what a reader of them would run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agent.config import load_config
from agent.export.rules.files import alert_files
from tests.e2e.receiver import Calls

TPOT_TARGET = "30ms"
"""Between 17 ms (healthy) and 36 ms (drafts hardly accepted): two thirds of a minute's requests break it."""
SCRAPE = "2s"
"""Between two scrapes and two evaluations: on a busy machine a second is too short to answer in."""
HOLD_SECONDS = 5
CLEAR_SECONDS = 5


def pdwatch_file(
    path: Path,
    deployment: str,
    ports: Mapping[str, int],
    listen: int,
    alerting: Mapping[str, Any],
) -> Path:
    """A deployment with a prefill and a decode server, looked at every other second, with promises of one minute."""
    promise = {"statistic": "mean", "window": "1m", "min_requests": 10, "hold": HOLD_SECONDS, "clear": CLEAR_SECONDS}
    pools = {
        role: {"role": role, "gpus_per_target": 2, "targets": {target: f"http://127.0.0.1:{ports[target]}"}}
        for role, target in (("prefill", "prefill-0"), ("decode", "decode-0"))
    }
    value = {
        "deployment": deployment,
        "listen": f"127.0.0.1:{listen}",
        "pools": pools,
        "scrape": {"interval": SCRAPE, "timeout": SCRAPE},
        "objectives": [
            {"name": "ttft", "indicator": "ttft", "scope": "system", "target": "2.5s", **promise},
            {"name": "tpot", "indicator": "tpot", "scope": "decode", "target": TPOT_TARGET, **promise},
        ],
        "alerting": dict(alerting),
        "state_dir": str(path.parent / f"{path.stem}.state"),
    }
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return path


def alertmanager_file(path: Path, pdwatch: Path, calls: Calls, way: str) -> Path:
    """The exported example: its routes and inhibitions, with receivers here and waits of seconds."""
    value = yaml.safe_load(alert_files(load_config(pdwatch, {}))["alertmanager-example.yml"])
    for route in (value["route"], *value["route"]["routes"]):
        route.update(group_wait="1s", group_interval="2s", repeat_interval="12h")
    for receiver in value["receivers"]:
        for webhook in receiver.get("webhook_configs", ()):
            webhook["url"] = calls.url(way, receiver["name"])
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return path


def prometheus_file(path: Path, pdwatch: Sequence[Path], family: str, alertmanager: int) -> Path:
    """The exported examples of several deployments in one Prometheus, with the rules of one family."""
    scrapes: list[dict[str, Any]] = []
    rules = []
    for config in pdwatch:
        files = alert_files(load_config(config, {}))
        example = yaml.safe_load(files["prometheus-example.yml"])
        # The rules on vLLM's metrics are to work where no pdwatch is known of, and the other way round.
        scrapes += [
            {**job, "job_name": f"{config.stem}-{job['job_name']}"}
            for job in example["scrape_configs"]
            if (job["job_name"] == "pdwatch") == (family == "pdwatch")
        ]
        rule_file = path.parent / f"{config.stem}-{family}-rules.yml"
        rule_file.write_text(files[f"{family}-rules.yml"], encoding="utf-8")
        rules.append(rule_file.name)
    value = {
        "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": SCRAPE},
        "rule_files": rules,
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
        "scrape_configs": scrapes,
    }
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return path
