"""The watch rules' thresholds, in one place. In: nothing. Out: numbers.

They are those of the verdicts, which exports do not know; a test holds the two together.
"""

from __future__ import annotations

from decimal import Decimal

WINDOW_SECONDS = 300
"""What problems of the traffic look back over, like the state does."""

FAILED_SECONDS = 60
"""Scrapes that fail this long make a target unreachable."""
FLAP_SECONDS = 900
FLAP_UP_RATIO = Decimal("0.9")
"""Fewer scrapes than this succeed: the target flaps, and what is said of it rests on less than it seems."""
FLAP_CHANGES = 6
"""One restart is two changes, and no flapping."""
FORGET_ENGINE_SECONDS = 3600

DECODE_FROZEN_SECONDS = 60
PREFILL_FROZEN_SECONDS = 300
KV_STALLED_SECONDS = 90
KV_PINNED_SECONDS = 60
KV_FULL_RATIO = Decimal("0.95")

LEAST_REQUESTS = 10
LEAST_EXPECTED_OF_ENGINE = 20
ONE_TOKEN_RATIO = Decimal("0.99")
UNMATCHED_RATIO = Decimal("0.05")
ERROR_RATIO = Decimal("0.01")
FETCHED_RATIO = Decimal("0.5")

QUIET_SECONDS = 600
LEAST_EXPECTED = 30

LEAST_DRAFTS = 500
BASELINE_SECONDS = 3600
BASELINE_AWAY_SECONDS = 900
COLLAPSED_TO = Decimal("0.5")
WORTH_HAVING_LENGTH = Decimal("1.1")

STEP_BEFORE_SECONDS = 600
STEP_AFTER_SECONDS = 180
STEP_SHOWN_SECONDS = 2400
"""How long a jump is said after the rule, which sees a quarter of an hour, has forgotten what was before."""
STEP_FACTOR = Decimal("1.4")
SAME_LOAD_FACTOR = Decimal("1.25")
LEAST_STEPS_A_MINUTE = 100
SLOW_RANK_FACTOR = Decimal("1.3")
LEAST_STEPS_OF_RANK = 200
LEAST_RANKS = 3

FULL_RATIO = Decimal("0.9")
SKEW_RATIO = Decimal("0.5")
GROWING_MINUTES = 4
LEAST_WAITING = 4
GROWN_FACTOR = Decimal("1.5")

STEPS_PER_REQUEST = 10
IN_FLIGHT_PART = Decimal("0.2")

GAP_SECONDS = 120
GAP_INTERVALS = 4
"""Scrapes that may fail in a row before a hold time begins again."""


def gap_seconds(interval_seconds: float) -> float:
    """The longest gap in the data that changes nothing."""
    return max(float(GAP_SECONDS), GAP_INTERVALS * interval_seconds)
