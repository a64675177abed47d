"""Tests of what is kept when something fires."""
