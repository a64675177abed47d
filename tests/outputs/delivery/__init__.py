"""Tests of the ways that alerts are sent by."""
