"""The example configurations, each over a simulated fleet of its shape."""
