"""Requests that went wrong: finish reasons, HTTP answers and refusals come in, bounds of their number go out.

A request that failed may stand under its finish reason and again under its answer; nothing on a page tells. So "all of
them are the same requests" and "none is" are the two ends of what can be.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.indicators.outcomes import finished
from agent.verdicts.measurement import Range
from agent.windows.increase import Increase


class Failures(NamedTuple):
    """Least and most requests that failed, and of how many."""

    bad_low: float
    bad_high: float
    seen_low: float
    seen_high: float

    def share(self) -> Range:
        """The share that failed; its value counts every report as a request of its own."""
        if self.seen_high <= 0:
            return Range.certain(None, 0.0, 1.0)
        # One failure more is one request more: both ends are taken with their own number of requests.
        low = self.bad_low / self.seen_low if self.seen_low > 0 else 0.0
        high = self.bad_high / self.seen_high
        return Range.certain(high, min(low, high), max(low, high))


def failures(increase: Increase) -> Failures | None:
    """Reason error, answered 5xx, or refused at admission; None where the pages do not count finished requests."""
    done = finished(increase)
    if done is None:
        return None
    failed = increase.count("requests_finished", "error") or 0.0
    server = increase.count("http_requests", "5xx") or 0.0
    refused = sum(increase.labels("admission_rejections").values())
    # A refusal is answered with 503, which the HTTP counter has as well where it exists.
    answered = max(server, refused)
    return Failures(
        bad_low=max(failed, answered),
        bad_high=failed + answered,
        seen_low=done + max(0.0, answered - failed),
        seen_high=done + answered,
    )


def failures_of_legs(before: Failures, serving: Failures) -> Failures:
    """Of requests in two legs: each counts once, by its serving leg, or by the leg before where it got no further."""
    return Failures(
        bad_low=serving.bad_low + before.bad_low,
        bad_high=serving.bad_high + before.bad_high,
        seen_low=serving.seen_low + before.bad_low,
        seen_high=serving.seen_high + before.bad_high,
    )
