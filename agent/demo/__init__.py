"""The simulated fleet: a world of its own, known only to the command line and the tests."""
