"""Tests of the outputs room."""
