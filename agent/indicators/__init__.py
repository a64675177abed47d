"""Turns windows into numbers with units and bounds; pure."""
