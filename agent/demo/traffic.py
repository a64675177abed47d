"""Arrivals, prompt lengths and completion lengths. In: the traffic's numbers and a seed. Out: requests in turn.

Poisson with a rate that swings over the day, by thinning; lengths are lognormal and clipped. Every random quantity has
its own stream, so that an incident in one place changes nothing elsewhere.
"""

from __future__ import annotations

import math
from random import Random

from agent.demo.topology import DAY_SECONDS, Traffic


def day_level(t: float, traffic: Traffic, night_share: float) -> float:
    """Share of the peak rate at unix time `t`: a cosine with its top at `peak_hour` UTC."""
    phase = 2.0 * math.pi * (t / DAY_SECONDS - traffic.peak_hour / 24.0)
    return night_share + (1.0 - night_share) * (0.5 + 0.5 * math.cos(phase))


class Arrivals:
    """When requests come and how long they are. `rate_factor` and `night_share` may be changed at any moment."""

    def __init__(self, traffic: Traffic, seed: int) -> None:
        self.traffic = traffic
        self.rate_factor = 1.0
        self.hand = 0
        """Counts who set the traffic: an incident that another one took over from changes it no more."""
        self.night_share = traffic.night_share
        self._times = Random(f"{seed}:arrivals")
        self._lengths = Random(f"{seed}:lengths")

    def rate(self, t: float) -> float:
        """Requests per second at `t`."""
        peak = self.traffic.peak_requests_per_second * self.rate_factor
        return peak * day_level(t, self.traffic, self.night_share)

    def next_after(self, t: float, horizon: float) -> float | None:
        """When the next request comes, or None when none comes before `horizon`."""
        top = self.traffic.peak_requests_per_second * self.rate_factor
        if top <= 0:
            return None
        rng = self._times
        while t < horizon:
            t += rng.expovariate(top)
            if rng.random() < day_level(t, self.traffic, self.night_share):
                return t if t < horizon else None
        return None

    def prompt_tokens(self) -> int:
        traffic = self.traffic
        drawn = self._lengths.lognormvariate(math.log(traffic.prompt_tokens_median), traffic.prompt_tokens_sigma)
        return int(min(max(drawn, traffic.prompt_tokens_least), traffic.prompt_tokens_most))

    def cached_tokens(self, prompt_tokens: int, block_tokens: int) -> int:
        """Tokens of the prompt that prefill has in its cache, in whole blocks."""
        rng = self._lengths
        if rng.random() >= self.traffic.cached_share:
            return 0
        return int(prompt_tokens * rng.uniform(0.1, 0.5)) // block_tokens * block_tokens

    def completion_tokens(self) -> tuple[int, str]:
        """Tokens to generate, and the reason with which that ends."""
        traffic, rng = self.traffic, self._lengths
        if rng.random() < traffic.single_token_share:
            return 1, "length"
        drawn = int(rng.lognormvariate(math.log(traffic.completion_tokens_median), traffic.completion_tokens_sigma))
        return (traffic.max_tokens, "length") if drawn >= traffic.max_tokens else (max(2, drawn), "stop")
