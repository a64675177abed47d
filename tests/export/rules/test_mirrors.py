"""What the rules repeat, because exports know neither verdicts nor pages: it must be the same there."""

import re
from decimal import Decimal

import pytest

from agent.catalogue import CATALOGUE
from agent.export.rules import legs, thresholds, vllm_names
from agent.export.rules.families import pdwatch_family
from agent.export.rules.watch_data import NEEDED
from agent.reading.names import NAMES
from agent.verdicts import (
    data,
    drafting,
    lost_legs,
    measuring,
    objectives,
    queues,
    stalls,
    steps,
    system,
    traffic,
    vanished,
)
from tests.export.rules.made import story

PAIRS = [
    (thresholds.DECODE_FROZEN_SECONDS, stalls.DECODE_FROZEN_SECONDS),
    (thresholds.PREFILL_FROZEN_SECONDS, stalls.PREFILL_FROZEN_SECONDS),
    (thresholds.KV_STALLED_SECONDS, stalls.KV_STALLED_SECONDS),
    (thresholds.KV_PINNED_SECONDS, stalls.KV_PINNED_SECONDS),
    (thresholds.KV_FULL_RATIO, stalls.KV_FULL_SHARE),
    (thresholds.LEAST_EXPECTED_OF_ENGINE, stalls.LEAST_EXPECTED_REQUESTS),
    (thresholds.LEAST_REQUESTS, traffic.LEAST_REQUESTS),
    (thresholds.ONE_TOKEN_RATIO, traffic.ONE_TOKEN_SHARE),
    (thresholds.UNMATCHED_RATIO, lost_legs.UNMATCHED_SHARE),
    (thresholds.ERROR_RATIO, traffic.ERROR_SHARE),
    (thresholds.QUIET_SECONDS, vanished.QUIET_SECONDS),
    (thresholds.LEAST_EXPECTED, vanished.LEAST_EXPECTED),
    (thresholds.LEAST_DRAFTS, drafting.LEAST_DRAFTS),
    (thresholds.BASELINE_SECONDS, drafting.BASELINE_SECONDS),
    (thresholds.BASELINE_AWAY_SECONDS, drafting.BASELINE_AWAY_SECONDS),
    (thresholds.COLLAPSED_TO, drafting.COLLAPSED_TO),
    (thresholds.WORTH_HAVING_LENGTH, drafting.WORTH_HAVING_LENGTH),
    (thresholds.STEP_BEFORE_SECONDS, 60 * steps.BEFORE_MINUTES),
    (thresholds.STEP_AFTER_SECONDS, 60 * steps.AFTER_MINUTES),
    (thresholds.STEP_FACTOR, steps.STEP_FACTOR),
    (thresholds.SAME_LOAD_FACTOR, 1 + steps.SAME_LOAD_SHARE),
    (thresholds.LEAST_STEPS_A_MINUTE, steps.LEAST_STEPS_A_MINUTE),
    (thresholds.SLOW_RANK_FACTOR, steps.SLOW_RANK_FACTOR),
    (thresholds.LEAST_STEPS_OF_RANK, steps.LEAST_STEPS_OF_RANK),
    (thresholds.FULL_RATIO, queues.FULL_SHARE),
    (thresholds.SKEW_RATIO, queues.SKEW_SHARE),
    (thresholds.GROWING_MINUTES, queues.GROWING_MINUTES),
    (thresholds.LEAST_WAITING, queues.LEAST_WAITING),
    (thresholds.STEPS_PER_REQUEST, measuring.STEPS_PER_REQUEST),
    (thresholds.IN_FLIGHT_PART, measuring.IN_FLIGHT_PART),
    (thresholds.GAP_SECONDS, objectives.GAP_AT_LEAST_SECONDS),
    (thresholds.GAP_INTERVALS, objectives.GAP_INTERVALS),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_threshold_is_the_verdicts(ours: float | Decimal, theirs: float) -> None:
    assert float(ours) == float(theirs)


def test_every_name_and_its_order_is_that_by_which_pages_are_read() -> None:
    read: dict[tuple[str, str], tuple[str, ...]] = {(name.key, name.kind): name.aliases for name in NAMES}
    logical = {"kv_transfer": "kv_transfer_time"}
    for kind, table in (("histogram", vllm_names.HISTOGRAMS), ("counter", vllm_names.COUNTERS)):
        for metric, aliases in table.items():
            assert read[logical.get(metric, metric), kind] == aliases
    for metric, aliases in vllm_names.GAUGES.items():
        assert read[metric, "gauge"] == aliases
    assert read["http_requests", "counter"] == (vllm_names.HTTP_REQUESTS,)


def test_the_legs_of_a_sum_are_those_of_the_verdicts() -> None:
    assert legs.LEGS == system.LEGS


def test_what_the_rules_need_of_a_page_is_what_the_verdicts_need() -> None:
    for role, metrics in NEEDED.items():
        needed = set(data.NEEDED_METRICS[role]) - set(data.OPTIONAL_SEVERITY_METRICS)
        assert set(metrics) == needed


def test_every_metric_of_pdwatch_that_a_rule_reads_is_exported() -> None:
    read = set()
    for group in pdwatch_family(story()).groups:
        for rule in group.rules:
            asked = [one.query for one in getattr(rule, "asked", ())]
            for text in (rule.expr, *asked):
                read |= set(re.findall(r"(?<![:\w])pdwatch_\w+", text))
    names = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in CATALOGUE else name for name in read}
    assert names <= set(CATALOGUE)
    assert len(names) > 10
