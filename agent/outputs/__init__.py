"""Hands the state to people and to other tools: pages, metrics, alerts, recordings."""
