"""An example configuration of Prometheus. In: the configuration. Out: scrapes with the labels that the rules need.

vLLM's pages know neither pool nor role; both come from here. `target` is the configured name, so that an incident has
the same labels whichever way it is sent. Kubernetes has them from labels of the pods (docs/alerts.md).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from agent.config import Config, Pool
from agent.export.rules.promql import span
from agent.export.rules.yaml_text import commented, dumped

NOTE = (
    "Example for Prometheus 2.42 and later; made by `pdwatch export alerts`. Addresses are those of the configuration.",
    "rule_files: one family. `vllm-rules.yml` needs the jobs vllm-*, `pdwatch-rules.yml` the job pdwatch.",
)
REPLAYED = "address.invalid:8000"
"""Stands for a target that was configured without an address."""


def prometheus_file(config: Config) -> str:
    """The whole example."""
    own = {} if config.deployment is None else {"deployment": config.deployment}
    jobs = [_job(pool, own) for pool in config.pools]
    # pdwatch puts pool, target and deployment on its series itself.
    pdwatch = {
        "job_name": "pdwatch",
        "static_configs": [{"targets": [_reached(config.listen)]}],
    }
    value = {
        "global": {
            "scrape_interval": span(config.scrape.interval_seconds),
            "scrape_timeout": span(config.scrape.timeout_seconds),
            "evaluation_interval": "15s",
        },
        "rule_files": ["vllm-rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9093"]}]}]},
        "scrape_configs": [*jobs, pdwatch],
    }
    return commented(NOTE) + "\n" + dumped(value)


def _reached(listen: str) -> str:
    """Where to scrape what listens there; an empty host listens everywhere, and so on the loopback too."""
    return f"127.0.0.1{listen}" if listen.startswith(":") else listen


def _job(pool: Pool, own: dict[str, str]) -> dict[str, Any]:
    job: dict[str, Any] = {"job_name": f"vllm-{pool.name}"}
    schemes = {urlsplit(target.url).scheme for target in pool.targets if target.url}
    paths = {urlsplit(target.url).path for target in pool.targets if target.url} or {"/metrics"}
    if schemes == {"https"}:
        job["scheme"] = "https"
    if len(paths) == 1:
        job["metrics_path"] = paths.pop()
    job["static_configs"] = [
        {
            "targets": [urlsplit(target.url).netloc or REPLAYED],
            "labels": {**own, "pool": pool.name, "role": pool.role, "target": target.name},
        }
        for target in pool.targets
    ]
    return job
