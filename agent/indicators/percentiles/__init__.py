"""Percentiles that can be trusted: from bucket and sum increases per scrape to values, certain bounds and likely
intervals.

`Pairing` makes one engine's records whole, `Evidence` sums them up in bounded memory and merges, `Percentiles`
answers with an `Estimate`. The method, its assumptions and its measured errors: docs/percentiles.md.
"""

from agent.indicators.percentiles.estimate import Estimate
from agent.indicators.percentiles.evidence import Evidence
from agent.indicators.percentiles.pairing import Pairing, Record, feed
from agent.indicators.percentiles.reader import Percentiles

__all__ = ["Estimate", "Evidence", "Pairing", "Percentiles", "Record", "feed"]
