"""Tests of the indicators room."""
