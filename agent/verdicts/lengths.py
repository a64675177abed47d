"""How many requests may lie outside the promised prompt lengths.

In: the prompt lengths of finished requests, in buckets, and the contract's range. Out: bounds of the count outside
among some number of observations. vLLM's buckets end at 10000, 20000, 50000, ..., so a range such as 16384..262144
is never cut exactly, and what lies above the top edge is not known to end anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.indicators.system import contract_share
from agent.state import ShareBounds
from agent.verdicts.measurement import Outside
from agent.windows.increase import HistogramIncrease


@dataclass(frozen=True, slots=True)
class Lengths:
    """The prompt lengths behind some observations.

    `prompts` None: the family is not on the pages. `same_requests`: the observations are of the very requests whose
    prompts were counted (both are recorded when a request finishes), so that counts and not only shares carry over.
    """

    prompts: HistogramIncrease | None
    promise: tuple[int, int] | None
    same_requests: bool = False

    def share(self) -> ShareBounds | None:
        """Share of requests inside; from 0 to 1 while none finished; None where lengths are not on the pages."""
        if self.prompts is None or self.promise is None:
            return None
        return contract_share(self.prompts, self.promise) or ShareBounds(0.0, 1.0)

    def outside(self, count: float) -> Outside:
        """Bounds of how many of `count` observations belong to requests outside."""
        inside = self.share()
        if inside is None:
            return Outside(known=self.promise is None)
        counted = self.prompts.count if self.prompts is not None else 0.0
        least, most = 1.0 - inside.high, 1.0 - inside.low
        if self.same_requests and counted >= count:
            # Some requests left no observation (one-token requests have no TPOT); those may be the outside ones.
            missing = counted - count
            return Outside(max(0.0, least * counted - missing), min(count, _whole(most * counted)))
        return Outside(min(count, least * count), min(count, _whole(most * count)))


def _whole(count: float) -> float:
    """Up to the next whole observation, but not for the dust of a multiplication."""
    return float(math.ceil(count - 1e-6))
