"""Exact indicators of whole requests: spans come in; TTFT, TPOT and parts by prompt length and by place go out.

`Requests` takes what arrives, `SpansView` is what it says about a window, `disagreements` compares that with the
histograms. Definitions, errors and bounds: docs/traces.md.
"""

from agent.indicators.requests.compare import Disagreement, disagreements
from agent.indicators.requests.exemplars import Exemplar, Exemplars
from agent.indicators.requests.requests import Requests
from agent.indicators.requests.summary import requests_state
from agent.indicators.requests.view import SpansView

__all__ = ["Disagreement", "Exemplar", "Exemplars", "Requests", "SpansView", "disagreements", "requests_state"]
