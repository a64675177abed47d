"""PromQL on vLLM's own metrics and on what the rules record of them. In: logical names, variables. Out: expressions.

The boards read the recording rules where there are any, so a board and an alert never disagree. Everything else is read
as the rules read it: increases per series before anything is added, the first alias that exists, pools never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from agent.config import Config
from agent.export.dashboards.frame import Choice
from agent.export.dashboards.queries import DEPLOYMENT, RATE_WINDOW
from agent.export.rules.vllm_names import COUNTERS, GAUGES, HISTOGRAMS, HTTP_REQUESTS

MORE_COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        "preemptions": "num_preemptions_total",
        "kv_failed_notifications": "nixl_num_failed_notifications_total",
        "kv_after_expiry": "nixl_num_notifications_after_expiry_total",
    }
)
MORE_HISTOGRAMS: Mapping[str, str] = MappingProxyType(
    {"kv_post_time": "nixl_post_time_seconds", "kv_bytes": "nixl_bytes_transferred"}
)
"""What the boards show and no rule needs; a test holds all names against those that pages are read by."""

BY_POOL = (DEPLOYMENT, "pool")
BY_ENGINE = (DEPLOYMENT, "pool", "target", "engine")
RECORDED = "pool:vllm_ttft_seconds:mean5m"
"""Recorded for every pool: where the variables come from."""

VLLM_DEPLOYMENT = Choice("deployment", "deployment", RECORDED, optional=True)


def pools(name: str, *roles: str) -> Choice:
    """A variable for the pools of the given roles; of all without any."""
    if not roles:
        return Choice(name, "pool", f'{RECORDED}{{deployment=~"$deployment"}}')
    matchers = f'deployment=~"$deployment",role=~"{"|".join(roles)}"'
    return Choice(name, "pool", f"up{{{matchers}}}", listed=True)


class Vllm:
    """vLLM's series, filtered by the variable that chooses the pools."""

    def __init__(self, config: Config, pool: str = "pool") -> None:
        self._prefix = f"{config.prefix}vllm:"
        self._chosen = f'deployment=~"$deployment",pool=~"${pool}"'

    def recorded(self, record: str, by: Iterable[str] = BY_POOL) -> str:
        """What a recording rule has recorded, such as `pool:vllm_itl_seconds:mean5m`."""
        return f"max by ({', '.join(by)}) ({record}{{{self._chosen}}})"

    def gauge(self, how: str, metric: str, by: Iterable[str] = BY_POOL, **fixed: str) -> str:
        """`how`: sum, max or avg over the series of a gauge that share the labels `by`."""
        each = " or ".join(f"{self._prefix}{alias}{self._selector(fixed)}" for alias in GAUGES[metric])
        return f"{how} by ({', '.join(by)}) ({each})"

    def rate(self, metric: str, by: Iterable[str] = BY_POOL, **fixed: str) -> str:
        """A counter, per second; `metric` may be a histogram's `ttft_count` and the like."""
        return f"sum by ({', '.join(by)}) ({self._over('rate', metric, RATE_WINDOW, fixed)})"

    def increase(self, metric: str, window: str, by: Iterable[str] = BY_POOL, **fixed: str) -> str:
        """A counter's increase over a window such as `$__range`."""
        return f"sum by ({', '.join(by)}) ({self._over('increase', metric, window, fixed)})"

    def mean(self, histogram: str, by: Iterable[str] = BY_POOL, window: str = RATE_WINDOW) -> str:
        """Exact mean of a histogram's observations over a window."""
        total = self.increase(f"{histogram}_sum", window, by)
        return f"{total} / ({self.increase(f'{histogram}_count', window, by)} > 0)"

    def buckets(self, histogram: str) -> str:
        """Observations per second in each bucket."""
        return self.rate(f"{histogram}_bucket", ("le",))

    def up(self, how: str, by: Iterable[str] = BY_POOL) -> str:
        """Whether the scrapes of the servers come."""
        return f'{how} by ({", ".join(by)}) (up{{{self._chosen},role=~"prefill|decode|both"}})'

    def _over(self, function: str, metric: str, window: str, fixed: Mapping[str, str]) -> str:
        ending = f"{self._selector(fixed)}[{window}]"
        return " or ".join(f"{function}({name}{ending})" for name in self._names(metric))

    def _names(self, metric: str) -> list[str]:
        if metric == "http_requests":
            return [HTTP_REQUESTS]
        family, _, part = metric.rpartition("_")
        if part in ("sum", "count", "bucket") and family in {*HISTOGRAMS, *MORE_HISTOGRAMS}:
            aliases = HISTOGRAMS.get(family) or (MORE_HISTOGRAMS[family],)
            return [f"{self._prefix}{alias}_{part}" for alias in aliases]
        return [self._prefix + alias for alias in COUNTERS.get(metric) or (MORE_COUNTERS[metric],)]

    def _selector(self, fixed: Mapping[str, str]) -> str:
        matchers = [self._chosen, *(f'{label}="{value}"' for label, value in fixed.items())]
        return "{" + ",".join(matchers) + "}"
