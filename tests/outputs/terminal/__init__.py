"""Tests of the state in a terminal."""
