"""What was seen when something fired. In: observations, states, alerts. Out: bundles on a disk.

evidence        when a bundle is written, and where an alert's is
ring, course    the last minutes of observations; the course of the main numbers
report          the one page for people
shelf, pages    the folder of bundles, and how it is served
"""

from agent.outputs.evidence.evidence import Evidence
from agent.outputs.evidence.pages import add_evidence_routes
from agent.outputs.evidence.ring import RecentObservations

__all__ = ["Evidence", "RecentObservations", "add_evidence_routes"]
