"""Windows longer than scrapes are kept for come from the pool's history, with the real time they cover."""

from __future__ import annotations

import pytest

from agent.config import config_from_names
from agent.model import PageObservation
from agent.watch import Watch
from tests.pages import counter, histogram, page


def test_a_window_of_an_hour_holds_an_hour_of_requests_and_their_rate() -> None:
    watch = Watch(config_from_names(["decode-0"]))
    for minute in range(180):
        text = page(
            counter("vllm:generation_tokens_total", 600.0 * minute),
            histogram("vllm:time_to_first_token_seconds", {1.0: minute}, 0.5 * minute),
        )
        watch.observe(PageObservation(60.0 * minute, "decode-0", text))
    now = 60.0 * 179
    hour = watch.state(now, window_seconds=3600.0).pools["decode"]
    assert hour.latency["ttft"].count == pytest.approx(60, abs=2)
    assert hour.latency["ttft"].mean == pytest.approx(0.5)
    assert hour.throughput.generation_tokens_per_s == pytest.approx(10.0, rel=0.05)
    five_minutes = watch.state(now).pools["decode"]
    assert five_minutes.latency["ttft"].count == 5
