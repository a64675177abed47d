"""Tests of pdwatch; the folders follow the rooms of the package."""
