"""Host memory per process: is it growing for good, how fast, and when does it end. Pure; see docs/memory.md."""

from agent.indicators.memory.imminent import ImminentOom, OomWatch
from agent.indicators.memory.reading import Interval, Severity, TrendName, TrendReading, hours_to_limit
from agent.indicators.memory.settings import Grade, TrendSettings
from agent.indicators.memory.trend import Trend

__all__ = [
    "Grade",
    "ImminentOom",
    "Interval",
    "OomWatch",
    "Severity",
    "Trend",
    "TrendName",
    "TrendReading",
    "TrendSettings",
    "hours_to_limit",
]
