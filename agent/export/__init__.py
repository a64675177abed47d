"""Writes dashboards, Prometheus rules and manifests from the catalogue and the objectives."""
