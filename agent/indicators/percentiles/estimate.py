"""What the estimator answers: one value with the bounds that are certain and the interval that is likely.

In: nothing. Out: the value type every reader of a percentile or a share carries on to the verdict and the picture.
"""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """A quantile (in the unit of the edges) or a share (0..1).

    ``low`` and ``high`` hold whatever the distribution inside the buckets was; ``high`` is None where nothing
    bounds it (a quantile above the top finite bucket). ``likely_low`` and ``likely_high`` are a 95 % interval inside
    them; ``likely_high`` is None where not even a likely upper end can be named. Always low <= value <= high.
    """

    value: float
    low: float
    high: float | None
    likely_low: float
    likely_high: float | None
