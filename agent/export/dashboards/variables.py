"""The variables of the boards on pdwatch's metrics. In: names of the catalogue. Out: variables.

All are filled from pdwatch's own series, never from a label that other exporters have too. "All" of the pools of one
role is the list of those pools: a pattern for everything would let the other role in.
"""

from __future__ import annotations

from agent.catalogue import PERCENTILES
from agent.export.dashboards.frame import Choice, Options
from agent.export.dashboards.queries import Own

_OWN = Own()

DEPLOYMENT = Choice("deployment", "deployment", "pdwatch_window_seconds", optional=True)
POOL = Choice("pool", "pool", _OWN.series("pool_info"))
PREFILL = Choice("prefill", "pool", _OWN.series("pool_info", role="~prefill|both"), listed=True)
DECODE = Choice("decode", "pool", _OWN.series("pool_info", role="~decode|both"), listed=True)
TARGET = Choice("target", "target", Own(pool="pool").series("target_up"))
PROCESS = Choice("process", "process", Own(pool="pool", target="target").series("memory_rss_bytes"))
PERCENTILE = Options(
    "percentile",
    "Percentile",
    [(word, word) for _, word in sorted(PERCENTILES, key=lambda one: one[1] != "p95")],
)
AHEAD = Options("ahead", "Forecast, hours ahead", [("6", "6"), ("1", "1"), ("12", "12"), ("24", "24")])
ALLOWED = Options(
    "allowed", "Allowed time broken", [("1 %", "0.01"), ("0.1 %", "0.001"), ("0.5 %", "0.005"), ("5 %", "0.05")]
)
