"""Metrics over OTLP: what is sent, and what a collector that is down costs."""
