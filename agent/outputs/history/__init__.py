"""The last day of the numbers that people ask about. In: states. Out: series of points, thinned honestly.

Means, load and promises by pool, memory by process: a bounded number of series, one row a minute, in one SQLite file
that survives restarts, or in memory where there is no such file.
"""

from agent.outputs.history.history import FILE_NAME, KEEP_SECONDS, History
from agent.outputs.history.thinning import Point

__all__ = ["FILE_NAME", "KEEP_SECONDS", "History", "Point"]
