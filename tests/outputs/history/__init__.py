"""Tests of the history of the last day."""
