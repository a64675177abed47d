"""The simulated fleet: a world of its own, known only to the command line and the tests.

In: a topology, a start time, incidents on command, and virtual time. Out: metrics pages as vLLM 0.32 gives them,
process readings, and the truth behind them.

topology                       how large the fleet is and how fast: `story()`, `small()`
traffic, requests, drafting    who asks for what, and when; a request and its exact times; what its steps accept
steps, prefill, decode, server the engines and the servers around them
fleet                          the event loop and the router between them
incidents                      what can go wrong, by name
families, metrics, pages       what an engine counts, and how a page shows it
host_memory                    the memory of the servers' processes
truth, observations            what really happened, and what a scraper would have seen of it
"""

from agent.demo.fleet import Fleet
from agent.demo.incidents import INCIDENTS, start_incident
from agent.demo.observations import observations
from agent.demo.topology import Topology, small, story
from agent.demo.truth import Truth, truth

__all__ = ["INCIDENTS", "Fleet", "Topology", "Truth", "observations", "small", "start_incident", "story", "truth"]
