"""Exact indicators of whole requests."""
