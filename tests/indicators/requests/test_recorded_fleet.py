"""A real fleet's spans against its client's clock and its own exact figures."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from agent.config import config_from_names
from agent.indicators.requests import Requests
from agent.indicators.requests.view import SpansView
from agent.model import SpansObservation
from agent.sources.recordings import read_recording

PHASES = ("warm", "low", "high", "after")


@pytest.fixture(scope="module")
def fleet(shared_dir: Path) -> Path:
    return shared_dir / "recordings" / "real-fleet"


@pytest.fixture(scope="module")
def truth(fleet: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((fleet / "truth.json").read_text())
    return found


def client_rows(fleet: Path, phase: str) -> list[dict[str, Any]]:
    """What the client saw of the phase's requests that were served."""
    rows = [json.loads(line) for line in (fleet / "requests.jsonl").read_text().splitlines()]
    return [row for row in rows if row["phase"] == phase and row["error"] is None]


def seen(fleet: Path, phase: str) -> tuple[Requests, SpansView]:
    """What the phase's spans say at its end. (Two phases share a second: by traces they are told apart exactly.)"""
    traces = {row["trace"] for row in client_rows(fleet, phase)}
    requests = Requests(config_from_names({"prefill-0", "prefill-1", "decode-0"}))
    first, last = float("inf"), 0.0
    for each in read_recording([fleet / "spans.jsonl.gz"]):
        if isinstance(each, SpansObservation) and traces.issuperset(span.trace for span in each.spans):
            requests.take(each)
            first, last = min(first, each.t), max(last, each.t)
    return requests, requests.system(first - 1.0, last + 1.0)


@pytest.mark.parametrize("phase", PHASES)
def test_every_request_of_a_phase_is_joined(fleet: Path, truth: dict[str, Any], phase: str):
    requests, view = seen(fleet, phase)
    assert view.requests == truth[phase]["requests"]
    counts = requests.counts()
    assert {name: counts[name] for name in counts if counts[name]} == {"joined": counts["joined"]}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("pool", "latency"), [("decode", "tpot"), ("decode", "ttft"), ("prefill", "ttft")])
def test_means_are_exact_and_quantiles_within_the_stated_error(
    fleet: Path, truth: dict[str, Any], phase: str, pool: str, latency: str
):
    true = truth[phase][pool][latency]
    found = seen(fleet, phase)[1].pool(pool)[latency]
    assert found.mean == pytest.approx(true["mean"], rel=1e-9)
    for name, value in true["quantiles"].items():
        quantile = found.quantiles[name]
        assert quantile is not None
        assert quantile.value == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize("phase", PHASES)
def test_the_users_ttft_is_the_clients_but_for_what_lies_outside_the_servers(fleet: Path, phase: str):
    client = {row["trace"]: row["first_token"] - row["sent"] for row in client_rows(fleet, phase)}
    view = seen(fleet, phase)[1]
    found = {each.trace: each.ttft_s for each in view.slowest(most=1000)}
    differences = [client[trace] - found[trace] for trace in found]
    assert len(differences) >= min(10, len(client))
    # The client's clock also runs while the request is on its way in, and the first token on its way out.
    assert min(differences) > 0.0
    assert statistics.median(differences) < 0.4
    mean = view.ttft().mean
    assert mean is not None
    assert 0.0 < statistics.fmean(client.values()) - mean < 0.3
