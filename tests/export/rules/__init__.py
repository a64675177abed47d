"""Rules for Prometheus: what they hold, and what fires by them."""
