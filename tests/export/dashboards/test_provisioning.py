"""Provisioning files: what Grafana reads at its start."""

import yaml

from agent.export.dashboards.provisioning import PROVISIONING
from agent.export.rules.grafana import DATA_SOURCE_UID


def test_the_data_source_has_the_uid_that_alert_rules_name() -> None:
    found = yaml.safe_load(PROVISIONING["datasource.yml"])
    (source,) = found["datasources"]
    assert found["apiVersion"] == 1
    assert (source["type"], source["uid"], source["access"]) == ("prometheus", DATA_SOURCE_UID, "proxy")


def test_the_provider_reads_a_folder_and_lets_nobody_edit() -> None:
    found = yaml.safe_load(PROVISIONING["dashboards.yml"])
    (provider,) = found["providers"]
    assert found["apiVersion"] == 1
    assert provider["type"] == "file"
    assert provider["allowUiUpdates"] is False
    assert provider["options"]["path"] == "${PDWATCH_DASHBOARDS}"
