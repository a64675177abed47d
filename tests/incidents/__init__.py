"""The library of played incidents: the simulated fleet under the whole pure engine, and what it calls people for."""
