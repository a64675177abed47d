"""Measurements over a recording of a real fleet, against what its servers' spans and its client say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.config import Contract, Objective, config_from_names
from agent.sources.recordings import read_recording
from agent.verdicts.measurement import Range
from agent.verdicts.views import Histories, Views
from agent.verdicts.warmup import WarmUps
from agent.watch import Watch

PHASE = "low"


@pytest.fixture(scope="module")
def truth(shared_dir: Path) -> dict[str, Any]:
    return dict(json.loads((shared_dir / "recordings" / "real-fleet" / "truth.json").read_text())[PHASE])


@pytest.fixture(scope="module")
def watch(shared_dir: Path, truth: dict[str, Any]) -> Watch:
    seen = [
        observation
        for observation in read_recording([shared_dir / "recordings" / "real-fleet" / "pages.jsonl.gz"])
        if observation.t <= truth["to"]
    ]
    names = {observation.target for observation in seen if hasattr(observation, "target")}
    watch = Watch(replace(config_from_names(names), contract=Contract((1, 262144))))
    for observation in seen:
        watch.observe(observation)
    return watch


def measured(watch: Watch, truth: dict[str, Any], **what: Any) -> Range:
    objective = Objective(target=1.0, window_seconds=truth["to"] - truth["from"], **what)
    views = Views(watch.config, watch.windows, watch.facts.pools, truth["to"], WarmUps(), Histories())
    return views.measurement(objective).range


def test_means_of_a_real_fleet_are_exact(watch: Watch, truth: dict[str, Any]) -> None:
    ttft = measured(watch, truth, indicator="ttft", scope="system")
    tpot = measured(watch, truth, indicator="tpot", scope="decode")
    assert ttft.low == ttft.high == pytest.approx(truth["system"]["ttft_composed_mean"], rel=1e-6)
    assert tpot.low == tpot.high == pytest.approx(truth["decode"]["tpot"]["mean"], rel=1e-6)


@pytest.mark.parametrize("statistic", ["p50", "p90", "p95", "p99"])
def test_percentiles_of_a_real_fleet_lie_within_the_bounds(watch: Watch, truth: dict[str, Any], statistic: str) -> None:
    rank = str(float(statistic[1:]) / 100)
    system = measured(watch, truth, indicator="ttft", scope="system", statistic=statistic)
    assert system.low <= truth["system"]["ttft_client_quantiles"][rank] <= system.high
    for scope, indicator in (("prefill", "ttft"), ("decode", "ttft"), ("decode", "tpot")):
        found = measured(watch, truth, indicator=indicator, scope=scope, statistic=statistic)
        assert found.low <= truth[scope][indicator]["quantiles"][rank] <= found.high
