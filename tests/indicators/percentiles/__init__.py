"""Tests of the percentile estimator."""
