"""Tests of the export room."""
