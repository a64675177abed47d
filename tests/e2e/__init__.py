"""The whole way from a server's page to a person's pager, with the real Prometheus and Alertmanager."""
