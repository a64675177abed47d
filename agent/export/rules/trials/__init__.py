"""Tests of the generated rules, generated with them and run by promtool: what must fire, and what must not."""
