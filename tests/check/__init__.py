"""Tests of `pdwatch check`."""
