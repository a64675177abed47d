"""vLLM's own pages as a source of rules. In: the configuration. Out: selectors and increases in PromQL.

Every series has the labels `pool`, `role` and `target` by relabelling (prometheus-example.yml). What vLLM puts into its
pages and must not be judged is taken out here: the TPOT of 0 that every request of one token records.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from agent.config import Config
from agent.export.rules.promql import le_matcher, matchers, span
from agent.export.rules.vllm_names import COUNTERS, GAUGES, HISTOGRAMS, HTTP_REQUESTS

ENGINE = ("target", "engine")
ONE_TOKEN = le_matcher(Decimal(1))


class VllmSource:
    """PromQL over vLLM's series of one deployment."""

    word = "vllm"

    def __init__(self, config: Config) -> None:
        self._deployment = config.deployment
        self._prefix = f"{config.prefix}vllm:"

    def selector(self, pools: Iterable[str], *more: str) -> str:
        """`{deployment="d",pool="decode",...}`; `more`: further matchers as text."""
        own = matchers(deployment=self._deployment, pool=list(pools))
        return "{" + ",".join([own, *more]) + "}"

    def names(self, metric: str) -> tuple[str, ...]:
        """Whole names of a counter or gauge, newest first."""
        if metric == "http_requests":
            return (HTTP_REQUESTS,)
        return tuple(self._prefix + alias for alias in (COUNTERS.get(metric) or GAUGES[metric]))

    def increase(
        self, metric: str, pools: Iterable[str], window_seconds: float, *more: str, offset_seconds: float = 0
    ) -> str:
        """Increase of each series of a counter, of a histogram's part where `metric` is `ttft_count` and the like."""
        family, _, part = metric.rpartition("_")
        if family in HISTOGRAMS and part in ("sum", "count", "bucket"):
            names = [f"{self._prefix}{alias}_{part}" for alias in HISTOGRAMS[family]]
        else:
            names = list(self.names(metric))
        return self._over("increase", names, pools, window_seconds, more, offset_seconds)

    def gauge(
        self,
        function: str,
        metric: str,
        pools: Iterable[str],
        window_seconds: float,
        *more: str,
        offset_seconds: float = 0,
    ) -> str:
        """`min_over_time` and the like of each series of a gauge."""
        return self._over(function, self.names(metric), pools, window_seconds, more, offset_seconds)

    def total(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str | None:
        return f"sum({self.increase(f'{indicator}_sum', pools, window_seconds)})"

    def count(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str | None:
        counted = f"sum({self.increase(f'{indicator}_count', pools, window_seconds)})"
        return f"({counted} - {self._one_token(pools, window_seconds)})" if indicator == "tpot" else counted

    def within(self, indicator: str, edge: Decimal, pools: Iterable[str], window_seconds: float) -> str | None:
        counted = f"sum({self.increase(f'{indicator}_bucket', pools, window_seconds, le_matcher(edge))})"
        return f"({counted} - {self._one_token(pools, window_seconds)})" if indicator == "tpot" else counted

    def estimated(
        self,
        indicator: str,  # noqa: ARG002 - named by Source, as are the others
        target: Decimal,  # noqa: ARG002
        pools: Iterable[str],  # noqa: ARG002
        window_seconds: float,  # noqa: ARG002
    ) -> tuple[str, str] | None:
        """None: vLLM's pages have their buckets and no more."""
        return None

    def buckets(self, indicator: str, pools: Iterable[str], window_seconds: float) -> str:
        """All buckets, merged over engines and targets: what a quantile may be taken of."""
        merged = f"sum by (le) ({self.increase(f'{indicator}_bucket', pools, window_seconds)})"
        if indicator != "tpot":
            return merged
        return f"({merged} - on () group_left () {self._one_token(pools, window_seconds)})"

    def up(self, pools: Iterable[str], *more: str) -> str:
        """The series that says whether a scrape came."""
        return f"up{self.selector(pools, *more)}"

    def _one_token(self, pools: Iterable[str], window_seconds: float) -> str:
        """Requests of one token: each recorded a TPOT of 0, as it had no token after the first."""
        return f"sum({self.increase('generation_tokens_histogram_bucket', pools, window_seconds, ONE_TOKEN)})"

    def _over(
        self,
        function: str,
        names: Iterable[str],
        pools: Iterable[str],
        window_seconds: float,
        more: Iterable[str],
        offset_seconds: float,
    ) -> str:
        ending = f"{self.selector(pools, *more)}[{span(window_seconds)}]"
        if offset_seconds:
            ending += f" offset {span(offset_seconds)}"
        return " or ".join(f"{function}({name}{ending})" for name in names)
