"""pdwatch: observability and SLA watchdog for vLLM with separate prefill and decode pools.

Nothing is imported here, so that `import agent` costs nothing; the version is the single source for the
distribution, `pdwatch version` and the metrics page.
"""

__version__ = "0.1.0"
