"""Measurements of speed and footprint; run them with `make bench`."""
