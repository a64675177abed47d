"""Tests of the verdicts room."""
