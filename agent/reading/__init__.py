"""Turns the raw text of one observation into typed readings by (target, engine); pure."""
