"""Provisioning files of Grafana. In: nothing. Out: file name -> text.

Both are read at Grafana's start, and may take their addresses from its environment. Boards and rules need no fixed name
of the data source; its uid is given so that Grafana-managed alert rules find it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DATA_SOURCE = """# For Grafana's conf/provisioning/datasources/. Made by `pdwatch export dashboards`.
apiVersion: 1

datasources:
  - name: Prometheus
    type: prometheus
    uid: prometheus
    access: proxy
    url: ${PROMETHEUS_URL}
    isDefault: true
    jsonData:
      httpMethod: POST
      # The scrape interval of the jobs: $__rate_interval is at least four times this.
      timeInterval: ${SCRAPE_INTERVAL}
"""

PROVIDER = """# For Grafana's conf/provisioning/dashboards/. Made by `pdwatch export dashboards`.
apiVersion: 1

providers:
  - name: pdwatch
    folder: pdwatch
    folderUid: pdwatch
    type: file
    disableDeletion: false
    updateIntervalSeconds: 30
    # What is changed in the browser would be overwritten: change the configuration and export again.
    allowUiUpdates: false
    options:
      # Where the JSON files are.
      path: ${PDWATCH_DASHBOARDS}
"""

PROVISIONING: Mapping[str, str] = MappingProxyType({"datasource.yml": DATA_SOURCE, "dashboards.yml": PROVIDER})
