"""All that `pdwatch export alerts` writes. In: the configuration. Out: file name -> text, always the same."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files as resources

from agent.config import Config
from agent.errors import ConfigError
from agent.export.rules.alertmanager import alertmanager_file
from agent.export.rules.families import pdwatch_family, vllm_family
from agent.export.rules.grafana import alert_rule_file
from agent.export.rules.prometheus import kubernetes_rule, rule_file
from agent.export.rules.scraping import prometheus_file
from agent.export.rules.trials.days import day_trials
from agent.export.rules.trials.pdwatch_trials import pdwatch_trials
from agent.export.rules.trials.promtool import trial_file
from agent.export.rules.trials.vllm_trials import vllm_trials

EVALUATION_SECONDS = 60.0
DAYS_EVALUATION_SECONDS = 300.0


def alert_files(config: Config) -> Mapping[str, str]:
    """Rule files of both families, for Prometheus, Kubernetes and Grafana, their tests, examples, and the runbooks.

    Raises ConfigError where there is nothing to watch, or where deployments could not be told apart.
    """
    if not config.pools:
        raise ConfigError("export alerts: no pool is configured, so there is nothing to watch")
    if config.mode == "sidecar":
        raise ConfigError("export alerts: mode sidecar sends no pool's page; export from the central configuration")
    if config.deployment is None:
        raise ConfigError(
            "export alerts: 'deployment' is not set, and names this deployment on every alert: "
            "set it in the configuration, or PDWATCH_DEPLOYMENT"
        )
    vllm, pdwatch = vllm_family(config), pdwatch_family(config)
    return {
        "vllm-rules.yml": rule_file(vllm),
        "vllm-rules_test.yml": trial_file(
            vllm_trials(config), "vllm-rules.yml", EVALUATION_SECONDS, "Tests of vllm-rules.yml, by promtool."
        ),
        "vllm-rules-days_test.yml": trial_file(
            day_trials(config),
            "vllm-rules.yml",
            DAYS_EVALUATION_SECONDS,
            "Tests of vllm-rules.yml over days, by promtool.",
        ),
        "vllm-prometheusrule.yaml": kubernetes_rule(vllm, config),
        "vllm-grafana.yaml": alert_rule_file(vllm, config),
        "pdwatch-rules.yml": rule_file(pdwatch),
        "pdwatch-rules_test.yml": trial_file(
            pdwatch_trials(config), "pdwatch-rules.yml", EVALUATION_SECONDS, "Tests of pdwatch-rules.yml, by promtool."
        ),
        "pdwatch-prometheusrule.yaml": kubernetes_rule(pdwatch, config),
        "pdwatch-grafana.yaml": alert_rule_file(pdwatch, config),
        "alertmanager-example.yml": alertmanager_file(config),
        "prometheus-example.yml": prometheus_file(config),
        "runbooks.md": resources("agent.export.rules").joinpath("runbooks.md").read_text(encoding="utf-8"),
    }
