"""Published cases, and what was said about them by hand, as expressions evaluated by the real promtool."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import Config, Objective
from agent.export.rules.families import vllm_family
from agent.export.rules.prometheus import rule_file
from tests.export.rules.made import ran, story, tool

STEPS = 20
PLACE = 'deployment="glm-prod",engine="0",instance="i",job="j",model_name="demo"'


def gained(pool: str, family: str, increase: float, **labels: str) -> dict[str, Any]:
    """A counter that gains `increase` in the five minutes of the last look, in equal steps of 15 s."""
    each = increase / STEPS
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    own = f'{PLACE},pool="{pool}",target="{pool}-0"{more}'
    return {"series": f"{family}{{{own}}}", "values": f"{1024 * each}+{each}x{2 * STEPS}"}


def buckets(pool: str, family: str, counts: Mapping[str, float], total: float) -> list[dict[str, Any]]:
    """A histogram's series from cumulative increases by edge."""
    rows = [gained(pool, f"{family}_bucket", count, le=edge) for edge, count in counts.items()]
    rows.append(gained(pool, f"{family}_count", counts["+Inf"]))
    return [*rows, gained(pool, f"{family}_sum", total)]


def evaluated(
    folder: Path, config: Config, series: Sequence[dict[str, Any]], expected: Mapping[str, float | None]
) -> None:
    """Fails with promtool's words where an expression is not what is expected; None: it has no value."""
    (folder / "vllm-rules.yml").write_text(rule_file(vllm_family(config)), encoding="utf-8")
    checks = [
        {
            "expr": f"round(sum({expr}), 0.0001)",
            "eval_time": "10m",
            "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
        }
        for expr, value in expected.items()
    ]
    test = {"interval": "15s", "input_series": list(series), "promql_expr_test": checks}
    document = {"rule_files": ["vllm-rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "case_test.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    done = ran([tool("promtool"), "test", "rules", "case_test.yml"], folder)
    assert done.returncode == 0, done.stdout + done.stderr


def with_objectives(*objectives: Objective) -> Config:
    return replace(story(), objectives=objectives)


TPOT = "vllm:request_time_per_output_token_seconds"
DECODE = {"0.01": 0, "0.025": 40, "0.05": 300, "0.075": 380, "0.1": 392, "0.15": 400, "+Inf": 400}
PREFILL = dict.fromkeys(DECODE, 400)


@pytest.mark.parametrize("one", ["1.0", "1"])
def test_c27_the_zeros_of_prefill_and_of_one_token_requests_are_not_judged(one: str, tmp_path: Path) -> None:
    zeros = {edge: count + 100 for edge, count in DECODE.items()}
    series = [
        *buckets("prefill", TPOT, PREFILL, 0.0),
        *buckets("decode", TPOT, zeros, 16.0),
        gained("prefill", "vllm:request_generation_tokens_bucket", 400, le=one),
        gained("decode", "vllm:request_generation_tokens_bucket", 100, le=one),
    ]
    config = with_objectives(Objective(indicator="tpot", scope="decode", target=0.03))
    p95 = 0.075
    expected = {
        "objective:vllm_tpot_seconds:mean5m": 0.04,
        "pool:vllm_tpot_seconds:mean5m": 0.04,
        "pool:vllm_tpot_seconds:p95_5m": p95,
        'pool:vllm_tpot_seconds:mean5m{pool="prefill"}': None,
    }
    evaluated(tmp_path, config, series, expected)


def test_c14_a_target_between_edges_gives_bounds_and_only_what_is_certain_fires(tmp_path: Path) -> None:
    ttft = {"0.1": 120, "0.25": 880, "0.5": 960, "0.75": 990, "1.0": 1000, "+Inf": 1000}
    series = buckets("decode", "vllm:time_to_first_token_seconds", ttft, 250.0)
    shares = {"a": (0.3, 0.90), "b": (0.5, 0.95), "c": (0.3, 0.97)}
    config = with_objectives(
        *(
            Objective(
                name=name, indicator="ttft", scope="decode", target=target, statistic="share", objective_ratio=ratio
            )
            for name, (target, ratio) in shares.items()
        )
    )
    record = "objective:vllm_ttft_within_ratio"
    expected: dict[str, float | None] = {
        f'{record}:low5m{{objective="a"}}': 0.88,
        f'{record}:high5m{{objective="a"}}': 0.96,
        f'{record}:low5m{{objective="b"}}': 0.96,
        f'{record}:high5m{{objective="b"}}': 0.96,
        'ALERTS{alertname="PDWatchObjectiveBreached",alertstate="firing",objective="a"}': None,
        'ALERTS{alertname="PDWatchObjectiveBreached",alertstate="firing",objective="b"}': None,
        'ALERTS{alertname="PDWatchObjectiveBreached",alertstate="firing",objective="c"}': 1,
    }
    evaluated(tmp_path, config, series, expected)


def drafted(drafts: float, tokens: float, accepted: float, first: float) -> list[dict[str, Any]]:
    """Drafts without any padding: as many steps as drafts."""
    return [
        gained("decode", "vllm:spec_decode_num_drafts_total", drafts),
        gained("decode", "vllm:spec_decode_num_draft_tokens_total", tokens),
        gained("decode", "vllm:spec_decode_num_accepted_tokens_total", accepted),
        gained("decode", "vllm:spec_decode_num_accepted_tokens_per_pos_total", first, position="0"),
        gained("decode", "vllm:inter_token_latency_seconds_count", drafts),
        gained("decode", "vllm:inter_token_latency_seconds_sum", drafts / 64),
        gained("decode", "vllm:time_to_first_token_seconds_count", 40),
    ]


RATIO, LENGTH = "pool:vllm_spec_acceptance:ratio5m", "pool:vllm_spec_acceptance_length:tokens5m"


def test_c32_acceptance_is_that_of_the_window(tmp_path: Path) -> None:
    evaluated(tmp_path, story(), drafted(5000, 5000, 3900, 3900), {RATIO: 0.78, LENGTH: 1.78})


def test_c32_the_three_rates_that_differ(tmp_path: Path) -> None:
    evaluated(tmp_path, story(), drafted(23, 161, 44, 17), {RATIO: 0.2733, LENGTH: 2.913})


def test_c32_without_drafts_there_is_no_rate_and_no_alert(tmp_path: Path) -> None:
    expected = {RATIO: None, LENGTH: None, 'ALERTS{alertname=~"PDWatchSpeculation.+"}': None}
    evaluated(tmp_path, story(), drafted(0, 0, 0, 0), expected)


def test_padded_drafts_are_taken_out_of_acceptance(tmp_path: Path) -> None:
    series = [one for one in drafted(1040, 1040, 500, 500) if "inter_token" not in one["series"]]
    series.append(gained("decode", "vllm:inter_token_latency_seconds_count", 1000))
    evaluated(tmp_path, story(), series, {RATIO: 0.5, LENGTH: 1.5, "pool:vllm_spec_drafts:increase5m": 1000})


def test_c29_an_expired_lease_calls_although_every_request_succeeds(tmp_path: Path) -> None:
    series = [
        gained("prefill", "vllm:nixl_num_kv_expired_reqs_total", 8),
        gained("decode", "vllm:request_success_total", 42, finished_reason="stop"),
        gained("decode", "vllm:nixl_num_failed_transfers_total", 0),
    ]
    firing = 'ALERTS{alertname="PDWatchKvExpired",alertstate="firing",scope="prefill"}'
    failed = 'ALERTS{alertname="PDWatchTransferFailures"}'
    errors = 'ALERTS{alertname="PDWatchErrorsHigh"}'
    evaluated(tmp_path, story(), series, {firing: 1, failed: None, errors: None})


def test_a_renamed_family_is_read_under_its_old_name_and_never_twice(tmp_path: Path) -> None:
    old = buckets("decode", "vllm:time_per_output_token_seconds", {"0.05": 1250, "+Inf": 1250}, 40.0)
    new = buckets("decode", "vllm:inter_token_latency_seconds", {"0.05": 1250, "+Inf": 1250}, 40.0)
    config = with_objectives(Objective(indicator="itl", scope="decode", target=0.05))
    count = "objective:vllm_itl_seconds:mean5m"
    evaluated(tmp_path, config, old, {count: 0.032})
    evaluated(tmp_path, config, [*old, *new], {count: 0.032, "engine:vllm_itl_seconds:mean5m": 0.032})


def test_one_engines_restart_is_not_hidden_in_anothers_growth(tmp_path: Path) -> None:
    def engine(name: str, family: str, values: str) -> dict[str, Any]:
        labels = PLACE.replace('engine="0"', f'engine="{name}"') + ',pool="decode",target="decode-0"'
        return {"series": f"vllm:{family}{{{labels}}}", "values": values}

    series = []
    for family, before, after in (
        ("spec_decode_num_draft_tokens_total", 3000, 24),
        ("spec_decode_num_accepted_tokens_total", 1800, 12),
    ):
        series.append(engine("0", family, f"{before}x20 {after}+{after}x19"))
        series.append(engine("1", family, f"{before}+{after}x40"))
    labels = "spec_decode_num_drafts_total"
    series += [engine(name, labels, "1000+24x40") for name in ("0", "1")]
    series += [engine(name, "inter_token_latency_seconds_count", "1000+24x40") for name in ("0", "1")]
    series += [engine(name, "time_to_first_token_seconds_count", "1000+1x40") for name in ("0", "1")]
    position = "spec_decode_num_accepted_tokens_per_pos_total"
    series += [engine(name, position, "1000+12x40") for name in ("0", "1")]
    evaluated(tmp_path, story(), series, {RATIO: 0.5})
