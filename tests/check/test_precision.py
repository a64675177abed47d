"""How exactly objectives can be judged: edges of the pages, the formula for bounds, and the flag that helps."""

from __future__ import annotations

import json
import math
import random

import pytest

from agent.check.buckets import neighbours
from agent.check.flags import custom_buckets, is_at_least
from agent.check.outlook import open_width, precision
from agent.config import Objective, Scrape
from tests.check.fleet import PER_TOKEN, answer, checked, configured, only, vllm_page

ONE = {"decode": ["decode-0"]}
SHARE = Objective(indicator="tpot", scope="decode", statistic="share", objective_ratio=0.95, target=0.02)


def outlook_at(interval_seconds: float, objective: Objective = SHARE, took_seconds: float = 0.01):
    config = configured(ONE, [objective], scrape=Scrape(interval_seconds=interval_seconds))
    pages = vllm_page(1000), vllm_page(1010)  # 2 requests/s
    return checked(config, answer("decode-0", *pages, took_seconds=took_seconds)).outlooks[0]


def test_one_request_per_scrape_is_known_exactly_more_often_than_many() -> None:
    now, shorter = outlook_at(5.0).precision, outlook_at(5.0).shorter
    assert now is not None
    assert shorter is not None
    assert now.per_scrape == pytest.approx(10.0)
    assert now.known_ratio == pytest.approx(math.exp(-10.0))
    assert (shorter.interval_seconds, shorter.per_scrape) == (1.0, pytest.approx(2.0))
    assert shorter.undecided_ratio < now.undecided_ratio


def test_no_interval_is_proposed_that_rendering_would_eat() -> None:
    shorter = outlook_at(5.0, took_seconds=0.25).shorter
    assert shorter is not None
    assert shorter.interval_seconds == 3.0
    assert outlook_at(5.0, took_seconds=0.6).shorter is None


def test_a_target_on_an_edge_is_decided_exactly_and_said_to_be() -> None:
    on_edge = Objective(indicator="ttft", scope="decode", statistic="p95", target=2.5)
    outlook = outlook_at(5.0, on_edge)
    assert outlook.on_edge
    assert outlook.precision is None


def test_edges_are_read_from_the_pages_not_assumed() -> None:
    text = vllm_page().replace('le="0.025"', 'le="0.02"')
    report = checked(configured(ONE, [SHARE]), answer("decode-0", text))
    assert only(report, "target_not_on_bucket") == []
    assert not report.outlooks[0].default_edges


def test_the_flag_keeps_the_edges_of_the_page_and_adds_the_target() -> None:
    report = checked(configured(ONE, [SHARE]), answer("decode-0", vllm_page(), version="0.32.0"))
    (found,) = only(report, "custom_buckets")
    flag, _, rest = found.help.partition(" ")
    assert flag == "--custom-histogram-buckets"
    assert json.loads(rest.strip("'")) == {"inter_token_latency": [0.01, 0.02, 0.025, 0.05]}
    assert "upgrade" not in found.text
    (old,) = only(
        checked(configured(ONE, [SHARE]), answer("decode-0", vllm_page(), version="0.29.0")), "custom_buckets"
    )
    assert "this is 0.29.0, so it needs an upgrade first" in old.text


def test_prompt_lengths_that_the_contract_names_get_edges_where_users_are_counted() -> None:
    text = vllm_page().replace('le="16383.0"', 'le="10000.0"').replace('le="262144.0"', 'le="200000.0"')
    report = checked(configured(ONE, []), answer("decode-0", text))
    assert only(report, "contract_not_on_bucket")[0].where == ("pool decode",)
    assert '"request_tokens":[10000,16383,200000,262144]' in only(report, "custom_buckets")[0].help


def test_two_metrics_of_one_family_share_its_edges_in_the_flag() -> None:
    flag = custom_buckets(
        {"tpot": (PER_TOKEN, [0.02]), "itl": (PER_TOKEN, [0.03]), "kv_transfer_time": ((0.1,), [0.06])}
    )
    assert flag == "--custom-histogram-buckets '{\"inter_token_latency\":[0.01,0.02,0.025,0.03,0.05]}'"


@pytest.mark.parametrize(
    ("version", "answer_"),
    [
        ("0.32.0", True),
        ("0.32.1rc1.dev4+g12ab", True),
        ("v1.0", True),
        ("0.31.9", False),
        ("nightly", None),
        (None, None),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str | None, answer_: bool | None) -> None:
    assert is_at_least(version, "0.32.0") is answer_


def test_neighbours_stand_beside_the_target_and_nothing_bounds_what_is_above_all() -> None:
    assert neighbours((0.1, 0.25, 0.5), 0.3) == (0.25, 0.5)
    assert neighbours((0.1, 0.25, 0.5), 0.05) == (0.0, 0.1)
    assert neighbours((0.1, 0.25, 0.5), 0.7) == (0.5, None)


@pytest.mark.parametrize("per_scrape", [0.2, 1.0, 2.0, 4.0, 20.0])
def test_the_formula_is_near_the_sharp_bounds_of_simulated_scrapes(per_scrape: float) -> None:
    # Per scrape: k values in (10, 25] ms with a known sum; the sharp bounds on how many lie above 20 ms.
    chance = random.Random(7)
    low, high, x = 0.010, 0.025, 0.020
    count, width = 0, 0
    total = 0.0
    for _ in range(3000):
        values = []
        due = chance.expovariate(per_scrape)
        while due < 1.0:
            values.append(min(high, max(low, chance.gauss(0.017, 0.003))))
            due += chance.expovariate(per_scrape)
        k, s = len(values), sum(values)
        most = math.floor(min(float(k), (s - k * low) / (x - low)) + 1e-9)
        least = math.ceil(max(0.0, (s - k * x) / (high - x)) - 1e-9)
        if k == 1:
            most = least = 0  # one value is its sum
        count, width, total = count + k, width + most - least, total + s
    said = precision(per_scrape, 1.0, 1.0, open_width(low, high, total / count, x)).undecided_ratio
    assert said == pytest.approx(width / count, abs=0.04)
