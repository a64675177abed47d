"""Tests of the memory trend."""
