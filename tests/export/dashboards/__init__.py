"""Dashboards: what they hold, and whether their queries have answers."""
